// Undeletes a stack: the text it wanted when it was deleted becomes a new deployment object, explicit targets return for agents that are
// live and registered, and the other targets are recomputed. One transaction and one number; a hold is not restored. Locks follow
// migrations/0007_targeting.sql.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { copyObject } from '../../deployments/actions/rollback-stack.ts'
import * as deploymentObjects from '../../deployments/store/deployment-objects.ts'
import * as generators from '../../generators/store/generators.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import { lockStack } from '../../targeting/actions.ts'
import * as agentTargets from '../../targeting/store/agent-targets.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { deploymentCreated, stackUndeleted } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as stackDeletions from '../store/stack-deletions.ts'
import * as stacks from '../store/stacks.ts'

export async function undeleteStack(
  deps: { sql: Sql; seal: Seal; subscriptionCache: SubscriptionCache; wakeFeed: (stackId?: string) => void },
  { stackId, actor }: { stackId: string; actor: Actor },
): Promise<Stack> {
  const stack = await deps.sql.begin(async (sql) => {
    await lockStack(sql, stackId)
    const { generator_id } = await requireDeleted(sql, stackId)
    const note = await stackDeletions.take(sql, { stack_id: stackId })
    const registered = await stackDeletions.holdRegistered(sql, { generator_id, agent_ids: note?.agent_ids ?? [] })
    await stackDeletions.enterGates(sql, { stack_id: stackId })
    const source = await readSource(sql, note?.object_id ?? null)
    const objectId = source === null ? null : uuid7()
    const restored = await stacks.restore(sql, { id: stackId, object_id: objectId })
    if (restored === null) throw new ApiError('stack_not_deleted', 'the stack is not deleted')
    const { sequence_id, ...row } = restored
    if (source !== null && objectId !== null) {
      const copy = { id: objectId, stackId, sequenceId: sequence_id, source, actor }
      await enqueueDeliveries(sql, deps.subscriptionCache, [deploymentCreated(await copyObject(sql, deps.seal, copy))])
    }
    const details = { sequence_id, deployment_object_id: objectId }
    await recordAuditEntry(sql, { actor, action: 'stack.undeleted', resource: { type: 'stack', id: stackId }, details })
    const by = { kind: actor.kind, id: actor.id }
    const event = stackUndeleted({ stack_id: stackId, sequence_id, reason: null, by, at: row.updated_at })
    await enqueueDeliveries(sql, deps.subscriptionCache, [event])
    // Last statements, because reports on these targets wait for their locks.
    const explicit = { stack_id: stackId, agent_ids: registered.map(({ agent_id }) => agent_id) }
    await stackDeletions.lockAgents(sql, explicit)
    await stackDeletions.lockStatuses(sql, { stack_id: stackId })
    await stackDeletions.lockSummary(sql, { stack_id: stackId })
    await stackDeletions.restoreTargets(sql, explicit)
    await agentTargets.retargetStack(sql, { stack_id: stackId })
    return row
  })
  deps.wakeFeed(stackId)
  return stack
}

async function requireDeleted(sql: Sql, id: string): Promise<Stack> {
  const stack = await stacks.get(sql, { id, with_deleted: true })
  if (stack === null) throw new ApiError('stack_not_found', 'no such stack')
  if (stack.deleted_at === null) throw new ApiError('stack_not_deleted', 'the stack is not deleted')
  if ((await generators.holdLive(sql, { ids: [stack.generator_id] })).length === 0)
    throw new ApiError('generator_deleted', 'the generator of the stack is deleted: create the stack again under another generator')
  return stack
}

/** null: nothing was wanted, or the removal of everything. */
async function readSource(sql: Sql, id: string | null): Promise<deploymentObjects.DeploymentObjectRow | null> {
  const source = id === null ? null : await deploymentObjects.get(sql, { id, with_deleted: true })
  return source === null || source.is_deletion_marker ? null : source
}
