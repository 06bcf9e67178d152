// Deletes stacks: marks them and their live deployment objects deleted, inserts a deletion marker with the next sequence number of each,
// and ends every target with a pending removal. An agent that was offline receives the marker until it confirms the removal.
import { createHash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntries } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { toManifestContext } from '../../deployments/rules/sealed-manifest.ts'
import * as deploymentObjects from '../../deployments/store/deployment-objects.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import * as agentTargets from '../../targeting/store/agent-targets.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { stackDeleted } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as holds from '../store/holds.ts'
import * as stackDeletions from '../store/stack-deletions.ts'
import * as stacks from '../store/stacks.ts'
import { requireOwnHold } from './hold-stack.ts'

export async function deleteStack(
  deps: { sql: Sql; seal: Seal; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  input: { stackId: string; actor: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    const deleted = await deleteStacks(sql, deps, { stackIds: [input.stackId], actor: input.actor })
    if (deleted === 0) throw new ApiError('stack_not_found', 'no such stack')
  })
  deps.wakeFeed()
}

const checksumOfNothing = createHash('sha256').update('').digest('hex')

/** Runs in the caller's transaction with a fixed number of statements for any number of stacks. Returns how many were live. */
export async function deleteStacks(
  sql: Sql,
  { seal, subscriptionCache }: { seal: Seal; subscriptionCache: SubscriptionCache },
  { stackIds, actor }: { stackIds: string[]; actor: Actor },
): Promise<number> {
  const marked = await stacks.markDeleted(sql, { stack_ids: stackIds, object_ids: stackIds.map(() => uuid7()) })
  if (marked.length === 0) return 0
  const stack_ids = marked.map((row) => row.stack_id)
  const ids = marked.map((row) => row.object_id)
  await deploymentObjects.markDeletedInStacks(sql, { stack_ids })
  await deploymentObjects.insertMarkers(sql, {
    ids,
    stack_ids,
    sequence_ids: marked.map((row) => row.sequence_id),
    sealed: ids.map((id) => seal.seal(toManifestContext(id), '')),
    yaml_checksum: checksumOfNothing,
    created_by_kind: actor.kind,
    created_by_id: actor.id,
  })
  await stackDeletions.note(sql, { stack_ids, object_ids: marked.map((row) => row.wanted_object_id) })
  // The update above removed the bounds. A deletion must not be a way around the hold of an admin: an undelete restores no hold.
  for (const hold of await holds.removeOfStacks(sql, { stack_ids })) requireOwnHold(hold, actor)
  await recordAuditEntries(
    sql,
    stack_ids.map((id) => ({ actor, action: 'stack.deleted', resource: { type: 'stack', id } })),
  )
  await enqueueDeliveries(sql, subscriptionCache, marked.map(stackDeleted))
  // Last statement, because reports on these targets wait for its locks.
  await agentTargets.endOfStacks(sql, { stack_ids })
  return marked.length
}
