// A person approves removals that an agent's guard holds back. A trigger wakes the agent.
import { ApiError } from '@brokkr/contract/error.ts'
import type { PruneApproval } from '@brokkr/contract/prune-approval.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as agents from '../store/agents.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import * as pruneApprovals from '../store/prune-approvals.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'

export interface ApprovePrune {
  readonly agentId: string
  readonly removals: number | null
  readonly stackId: string | null
  readonly sequenceId: number | null
  readonly by: Actor
}
/** An approval of removals is for the next snapshot, not for one of some later day. */
const validSeconds = 3600

export async function approvePrune(deps: { sql: Sql; wakeFeed: () => void }, input: ApprovePrune): Promise<PruneApproval> {
  refuseMixedForms(input)
  const { agentId: agent_id, removals, stackId: stack_id, sequenceId: sequence_id, by } = input
  const approval = await deps.sql.begin(async (sql) => {
    if ((await agents.get(sql, { id: agent_id })) === null) throw new ApiError('agent_not_found', 'no such agent')
    if (stack_id !== null && sequence_id !== null) await requireRevision(sql, stack_id, sequence_id)
    const created_by = `${by.kind} ${by.id ?? '-'}`
    const made = await pruneApprovals.insert(sql, {
      id: uuid7(),
      agent_id,
      removals,
      stack_id,
      sequence_id,
      valid_seconds: validSeconds,
      created_by,
    })
    const details = removals === null ? { stack_id, sequence_id } : { removals }
    await recordDeed(sql, { by, action: 'prune.approved', on: { type: 'agent', id: agent_id }, details })
    return made
  })
  deps.wakeFeed()
  return approval
}

function refuseMixedForms({ removals, stackId, sequenceId }: ApprovePrune): void {
  const isOfSnapshot = removals !== null && stackId === null && sequenceId === null
  const isOfRevision = removals === null && stackId !== null && sequenceId !== null
  if (isOfSnapshot || isOfRevision) return
  throw new ApiError('validation_failed', 'send removals alone (stacks of the next snapshot), or stack_id with sequence_id (one revision)')
}

async function requireRevision(sql: Sql, stackId: string, sequenceId: number): Promise<void> {
  const owner = await stacks.ownerOf(sql, { id: stackId })
  if (owner === null || owner.is_deleted) throw new ApiError('stack_not_found', 'no such stack')
  const found = await deploymentObjects.ofStack(sql, { stack_id: stackId, id: null, sequence_id: sequenceId })
  if (found === null) throw new ApiError('deployment_object_not_found', `the stack has no object with sequence ${sequenceId}`)
}
