// Identity and rights of a PAK.
import type { AgentId, GeneratorId } from '@brokkr/contract/wire.ts'
import type { BrokerDeps } from '../../deps.ts'
import type { Handler } from '../../http/server/handler.ts'
import { listAccess } from '../list-access.ts'

export const verifyPak: Handler<'verifyPak', BrokerDeps> = async (_, { principal }) => ({
  admin: principal.kind === 'admin',
  agent: principal.kind === 'agent' ? (principal.id as AgentId) : null,
  generator: principal.kind === 'generator' ? (principal.id as GeneratorId) : null,
  readonly: principal.readonly,
})

export const handleListAccess: Handler<'listAccess', BrokerDeps> = async (_, { principal }) => listAccess(principal)

/** Only callers that may read the stack reach it. */
export const handleListStackAccess: Handler<'listStackAccess', BrokerDeps> = async (_, { principal }) => listAccess(principal)
