// Registrations of agents with generators: register and deregister.
import type { Registration } from '@brokkr/contract/agents/agent.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { requireLiveAgent } from '../../agents/actions/agents.ts'
import * as agents from '../../agents/store/agents.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { changeAgent, lockAgent } from '../../targeting/actions.ts'
import * as generators from '../store/generators.ts'
import * as registrations from '../store/registrations.ts'

// Registers an agent with a generator, so that the generator's stacks can target it. An agent may register itself only with generators
// that its creation or invite named; otherwise a stolen agent PAK could read manifests of any generator.

export interface RegisterAgent {
  readonly generatorId: string
  /** null if the calling agent registers itself. */
  readonly agentId: string | null
  readonly selfRegistration: boolean
  readonly actor: Actor
}
const registrationsMax = 1000

export async function registerAgent(deps: { sql: Sql; wakeFeed: () => void }, input: RegisterAgent): Promise<Registration> {
  const agentId = registeredAgent(input)
  const registration = await deps.sql.begin(async (sql) => {
    await lockAgent(sql, agentId)
    if ((await generators.holdLive(sql, { ids: [input.generatorId] })).length === 0)
      throw new ApiError('generator_not_found', 'no such generator')
    await requireLiveAgent(sql, agentId, 'agent_generator_registrations_agent_id_fkey')
    if (input.actor.kind === 'agent') await requireInvite(sql, input, agentId)
    if ((await registrations.exists(sql, { agent_id: agentId, generator_id: input.generatorId })) !== null)
      throw new ApiError('already_registered', 'the agent is registered with this generator')
    const { held: registrationCount } = await registrations.countOf(sql, { agent_id: agentId })
    if (registrationCount >= registrationsMax)
      throw new ApiError('limit_exceeded', `an agent has at most ${registrationsMax} registrations`, {
        details: { limit: registrationsMax },
      })
    const row = await registrations.insert(sql, { id: uuid7(), agent_id: agentId, generator_id: input.generatorId })
    const details = { generator_id: input.generatorId }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, { actor: input.actor, action: 'agent.registered', resource: { type: 'agent', id: agentId }, details }),
        changeAgent(tx, agentId, [], async () => undefined),
      ],
      () => row,
    )
  })
  deps.wakeFeed()
  return registration
}

/** An agent always acts for itself, even if the body names another agent; other callers must name the agent. */
function registeredAgent({ agentId, actor }: { agentId: string | null; actor: Actor }): string {
  const id = actor.kind === 'agent' ? actor.id : agentId
  if (id === null) throw new ApiError('missing_agent_id', 'agent_id is required')
  return id
}

async function requireInvite(sql: Sql, input: RegisterAgent, agentId: string): Promise<void> {
  const invite = await agents.findInvitedGenerators(sql, { id: agentId })
  if (input.selfRegistration || invite?.invited_generator_ids.includes(input.generatorId)) return
  throw new ApiError('forbidden', 'the agent was not invited to this generator; an admin can register it')
}

/** Ends the registration of an agent with a generator. All targets of the generator's stacks on the agent end, explicit ones too.
 * Deregistering an agent that is not registered succeeds. */
export async function deregisterAgent(
  deps: { sql: Sql; wakeFeed: () => void },
  input: { generatorId: string; agentId: string | null; actor: Actor },
): Promise<void> {
  const agentId = registeredAgent(input)
  await deps.sql.begin(async (sql) => {
    await lockAgent(sql, agentId)
    const removed = await registrations.remove(sql, { agent_id: agentId, generator_id: input.generatorId })
    if (removed === 0) return undefined
    const details = { generator_id: input.generatorId }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, { actor: input.actor, action: 'agent.deregistered', resource: { type: 'agent', id: agentId }, details }),
        changeAgent(tx, agentId, [], async () => undefined),
      ],
      () => undefined,
    )
  })
  deps.wakeFeed()
}
