// Registers an agent with a generator: from then on that generator's stacks may reach it. An agent may register itself
// only where its creation or invite named the generator, or a stolen agent key could pull any tenant's manifests.
import type { Registration } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as agents from '../store/agents.ts'
import * as generators from '../store/generators.ts'
import * as registrations from '../store/registrations.ts'
import type { Sql } from '../store/sql.ts'
import { requireLiveAgent } from './require-live-agent.ts'
import { lockTargeting, retarget } from './retarget.ts'

export interface RegisterAgent {
  readonly generatorId: string
  /** null: the agent that calls registers itself. */
  readonly agentId: string | null
  readonly selfRegistration: boolean
  readonly by: Actor
}
const registrationsMax = 1000

export async function registerAgent(deps: { sql: Sql; wakeFeed: () => void }, input: RegisterAgent): Promise<Registration> {
  const agentId = registeredAgent(input)
  const registration = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    if ((await generators.get(sql, { id: input.generatorId })) === null) throw new ApiError('generator_not_found', 'no such generator')
    await requireLiveAgent(sql, agentId, 'agent_generator_registrations_agent_id_fkey')
    if (input.by.kind === 'agent') await refuseUninvited(sql, input, agentId)
    if ((await registrations.exists(sql, { agent_id: agentId, generator_id: input.generatorId })) !== null)
      throw new ApiError('already_registered', 'the agent is registered with this generator')
    const { held } = await registrations.countOf(sql, { agent_id: agentId })
    if (held >= registrationsMax)
      throw new ApiError('limit_exceeded', `an agent has at most ${registrationsMax} registrations`, {
        details: { limit: registrationsMax },
      })
    const inserted = await registrations.insert(sql, { id: uuid7(), agent_id: agentId, generator_id: input.generatorId })
    await retarget(sql, { agentId })
    await recordDeed(sql, {
      by: input.by,
      action: 'agent.registered',
      on: { type: 'agent', id: agentId },
      details: { generator_id: input.generatorId },
    })
    return inserted
  })
  deps.wakeFeed()
  return registration
}

/** An agent speaks for itself, whatever its body says; anybody else names the agent. */
export function registeredAgent({ agentId, by }: { agentId: string | null; by: Actor }): string {
  const id = by.kind === 'agent' ? by.id : agentId
  if (id === null) throw new ApiError('missing_agent_id', 'agent_id is needed: name the agent')
  return id
}

async function refuseUninvited(sql: Sql, input: RegisterAgent, agentId: string): Promise<void> {
  const invited = await agents.invitedGenerators(sql, { id: agentId })
  if (input.selfRegistration || invited?.invited_generator_ids.includes(input.generatorId)) return
  throw new ApiError('forbidden', 'this agent was not invited by that generator; an admin can register it')
}
