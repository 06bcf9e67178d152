// Deletes stacks: they and their live revisions are marked deleted, a live deletion marker takes the next number of each, and
// every pair ends with its removal due. Agents that were away for weeks still see the marker until they confirm.
import { createHash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { sealedYaml } from '../domain/sealed-yaml.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { stackDeleted } from '../domain/webhook-events.ts'
import type { Seal } from '../seal.ts'
import * as agentTargets from '../store/agent-targets.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { lockTargeting } from './retarget.ts'

export async function deleteStack(
  deps: { sql: Sql; seal: Seal; hooks: Subscriptions; wakeFeed: () => void },
  input: { stackId: string; by: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    const deleted = await deleteStacks(sql, deps, { stackIds: [input.stackId], by: input.by })
    if (deleted === 0) throw new ApiError('stack_not_found', 'no such stack')
  })
  deps.wakeFeed()
}

const checksumOfNothing = createHash('sha256').update('').digest('hex')

/** In the caller's transaction, which holds the targeting lock; set by set, whatever their number. Returns how many were live. */
export async function deleteStacks(
  sql: Sql,
  { seal, hooks }: { seal: Seal; hooks: Subscriptions },
  { stackIds, by }: { stackIds: string[]; by: Actor },
): Promise<number> {
  const marked = await stacks.markDeleted(sql, { stack_ids: stackIds })
  if (marked.length === 0) return 0
  const stack_ids = marked.map((row) => row.stack_id)
  const ids = marked.map(() => uuid7())
  await deploymentObjects.markDeletedOf(sql, { stack_ids })
  await stacks.setHeads(sql, { stack_ids, object_ids: ids })
  await deploymentObjects.insertMarkers(sql, {
    ids,
    stack_ids,
    sequence_ids: marked.map((row) => row.sequence_id),
    sealed: ids.map((id) => seal.seal(sealedYaml(id), '')),
    yaml_checksum: checksumOfNothing,
    created_by_kind: by.kind,
    created_by_id: by.id,
  })
  await agentTargets.endOfStacks(sql, { stack_ids })
  for (const id of stack_ids) await recordDeed(sql, { by, action: 'stack.deleted', on: { type: 'stack', id } })
  await enqueue(sql, hooks, marked.map(stackDeleted))
  return marked.length
}
