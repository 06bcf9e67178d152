// Stores an admin's approval of removals that the prune guard of an agent blocks. A trigger notifies the agent.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { PruneApproval } from '@brokkr/contract/stacks/prune-approval.ts'
import type { Sql } from '@brokkr/postgres'
import * as agents from '../../agents/store/agents.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as deploymentObjects from '../../deployments/store/deployment-objects.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as stacks from '../../stacks/store/stacks.ts'
import * as pruneApprovals from '../store/prune-approvals.ts'

export interface ApprovePrune {
  readonly agentId: string
  readonly removals: number | null
  readonly stackId: string | null
  readonly sequenceId: number | null
  readonly actor: Actor
}
/** An approval of removals is meant for the next snapshot, so it expires after an hour. */
const validSeconds = 3600

export async function approvePrune(deps: { sql: Sql; wakeFeed: () => void }, input: ApprovePrune): Promise<PruneApproval> {
  requireOneForm(input)
  const { agentId: agent_id, removals, stackId: stack_id, sequenceId: sequence_id, actor } = input
  const approval = await deps.sql.begin(async (sql) => {
    if ((await agents.get(sql, { id: agent_id })) === null) throw new ApiError('agent_not_found', 'no such agent')
    if (stack_id !== null && sequence_id !== null) await requireDeploymentObject(sql, stack_id, sequence_id)
    const created_by = `${actor.kind} ${actor.id ?? '-'}`
    const row = await pruneApprovals.insert(sql, {
      id: uuid7(),
      agent_id,
      removals,
      stack_id,
      sequence_id,
      valid_seconds: validSeconds,
      created_by,
    })
    const details = removals === null ? { stack_id, sequence_id } : { removals }
    await recordAuditEntry(sql, { actor, action: 'prune.approved', resource: { type: 'agent', id: agent_id }, details })
    return row
  })
  deps.wakeFeed()
  return approval
}

function requireOneForm({ removals, stackId, sequenceId }: ApprovePrune): void {
  const isForSnapshot = removals !== null && stackId === null && sequenceId === null
  const isForObject = removals === null && stackId !== null && sequenceId !== null
  if (isForSnapshot || isForObject) return
  throw new ApiError(
    'validation_failed',
    'send either removals (stacks of the next snapshot) or stack_id with sequence_id (one deployment object)',
  )
}

async function requireDeploymentObject(sql: Sql, stackId: string, sequenceId: number): Promise<void> {
  const owner = await stacks.findOwner(sql, { id: stackId })
  if (owner === null || owner.is_deleted) throw new ApiError('stack_not_found', 'no such stack')
  const object = await deploymentObjects.findInStack(sql, { stack_id: stackId, id: null, sequence_id: sequenceId })
  if (object === null) throw new ApiError('deployment_object_not_found', `the stack has no deployment object with sequence ${sequenceId}`)
}
