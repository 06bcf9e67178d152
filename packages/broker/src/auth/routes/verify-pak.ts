// Identity of a PAK.
import type { AgentId, GeneratorId } from '@brokkr/contract/wire.ts'
import type { BrokerDeps } from '../../deps.ts'
import type { Handler } from '../../http/server/handler.ts'

export const verifyPak: Handler<'verifyPak', BrokerDeps> = async (_, { principal }) => ({
  admin: principal.kind === 'admin',
  agent: principal.kind === 'agent' ? (principal.id as AgentId) : null,
  generator: principal.kind === 'generator' ? (principal.id as GeneratorId) : null,
  readonly: principal.readonly,
})
