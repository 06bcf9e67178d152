// Brings the pairs of one agent or one stack to what labels, annotations, explicit rows and registrations say. Runs in the
// transaction that changed one of them; the lock comes first, before anything is read, because two changes that only
// match together (a label on an agent, the same on a stack) would otherwise miss each other.
import { ApiError } from '@brokkr/contract/error.ts'
import * as agentTargets from '../store/agent-targets.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'

export type Retargeted = { readonly agentId: string } | { readonly stackId: string }

const stacksPerAgentMax = 10_000

export async function lockTargeting(sql: Sql): Promise<void> {
  await agentTargets.lock(sql, {})
}

/** The caller holds the lock. Ended pairs go first; a trigger notes that their removal is due. */
export async function retarget(sql: Sql, what: Retargeted): Promise<void> {
  if ('stackId' in what) await stacks.lockHead(sql, { id: what.stackId })
  const scope = 'agentId' in what ? { agent_id: what.agentId, stack_id: null } : { agent_id: null, stack_id: what.stackId }
  await agentTargets.recomputeEnded(sql, scope)
  await agentTargets.recomputeBegun(sql, scope)
  if ('agentId' in what) await refuseTooManyTargets(sql, what.agentId)
}

export async function refuseTooManyTargets(sql: Sql, agentId: string): Promise<void> {
  const { held } = await agentTargets.countOf(sql, { agent_id: agentId })
  if (held > stacksPerAgentMax) {
    throw new ApiError('limit_exceeded', `an agent takes at most ${stacksPerAgentMax} stacks; this change would give it ${held}`, {
      details: { limit: stacksPerAgentMax },
    })
  }
}
