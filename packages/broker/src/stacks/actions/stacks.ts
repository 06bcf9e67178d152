// Stacks: create, update, delete.
import { createHash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntries, recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { toManifestContext } from '../../deployments/rules/stored-manifest.ts'
import * as deploymentObjects from '../../deployments/store/deployment-objects.ts'
import * as generators from '../../generators/store/generators.ts'
import { changedFields, requireAnnotation, requireDescription, requireLabel, requireName, requireUnchanged } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import { changeStack } from '../../targeting/actions.ts'
import * as agentTargets from '../../targeting/store/agent-targets.ts'
import * as annotationsStore from '../../targeting/store/annotations.ts'
import * as labelsStore from '../../targeting/store/labels.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { stackCreated, stackDeleted } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as holds from '../store/holds.ts'
import * as stackDeletions from '../store/stack-deletions.ts'
import * as stacks from '../store/stacks.ts'
import { requireOwnHold } from './holds.ts'

// Creates a stack with its labels, annotations and targets on matching agents in one transaction.

export interface NewStack {
  readonly name: string
  readonly description: string | null | undefined
  readonly generatorId: string
  readonly labels: readonly string[]
  readonly annotations: Readonly<Record<string, string>>
  readonly drift: string
  readonly actor: Actor
}

export async function createStack(
  deps: { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  input: NewStack,
): Promise<Stack> {
  const row = {
    id: uuid7(),
    name: requireName(input.name, 'name'),
    description: requireDescription(input.description),
    generator_id: input.generatorId,
    drift: input.drift,
  }
  const labels = [...new Set(input.labels.map(requireLabel))]
  const annotations = Object.entries(input.annotations)
  for (const [key, value] of annotations) requireAnnotation(key, value)
  const stack = await deps.sql.begin(async (sql) => {
    // The row of a deleted generator still exists, so the foreign key alone would allow the insert.
    if ((await generators.holdLive(sql, { ids: [row.generator_id] })).length === 0)
      throw new ApiError('foreign_key_violation', 'no such generator', { details: { constraint: 'stacks_generator_id_fkey' } })
    const insertedStack = await stacks.insert(sql, row)
    await labelsStore.addManyToStack(sql, { stack_id: row.id, labels })
    await annotationsStore.addManyToStack(sql, {
      stack_id: row.id,
      keys: annotations.map(([key]) => key),
      values: annotations.map(([, value]) => value),
    })
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'stack.created',
      resource: { type: 'stack', id: row.id },
      details: { name: row.name },
    })
    await enqueueDeliveries(sql, deps.subscriptionCache, [stackCreated(insertedStack)])
    // A stack without labels and annotations matches no agent, so no targeting lock is needed.
    if (labels.length === 0 && annotations.length === 0) return insertedStack
    return sql.commitWith(
      (tx) => [changeStack(tx, row.id, [], async () => undefined)],
      () => insertedStack,
    )
  })
  deps.wakeFeed()
  return stack
}

// Changes name, description or drift of a stack. Name and drift are sent to agents, so changing them takes a sequence number. Null and
// omitted fields stay unchanged; generator and deletion cannot be changed here.

type Sent<T> = T | null | undefined
export interface StackChange {
  readonly stackId: string
  readonly id: Sent<string>
  readonly name: Sent<string>
  readonly description: Sent<string>
  readonly drift: Sent<Stack['drift']>
  readonly generator_id: Sent<string>
  readonly deleted_at: Sent<string>
  /** Throws if the stack changed after the caller read it. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly actor: Actor
}

export async function updateStack(deps: { sql: Sql; wakeFeed: () => void }, input: StackChange): Promise<Stack> {
  const { stackId: id, actor } = input
  if ((input.id ?? id) !== id) throw new ApiError('stack_id_mismatch', 'id in the body differs from the path')
  const stack = await deps.sql.begin(async (sql) => {
    const before = await stacks.lock(sql, { id })
    if (before === null) throw new ApiError('stack_not_found', 'no such stack')
    input.precondition(before)
    requireUnchanged<string>('generator_id', input.generator_id, before.generator_id)
    requireUnchanged('deleted_at', input.deleted_at, before.deleted_at)
    const after = {
      name: input.name === null || input.name === undefined ? before.name : requireName(input.name, 'name'),
      description: requireDescription(input.description) ?? before.description,
      drift: input.drift ?? before.drift,
    }
    const fields = changedFields(before, after)
    if (fields.length === 0) return before
    await recordAuditEntry(sql, { actor, action: 'stack.updated', resource: { type: 'stack', id }, details: { fields } })
    return stacks.update(sql, { id, ...after, takes_number: fields.includes('name') || fields.includes('drift') })
  })
  deps.wakeFeed()
  return stack
}

/** Deletes stacks: marks them and their live deployment objects deleted, inserts a deletion marker with the next sequence number of each,
 * and ends every target with a pending removal. An agent that was offline receives the marker until it confirms the removal. */
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

// Rejects writes to a stack that was deleted after the request was authorized.

/** Call it under the targeting lock, which deleting a stack takes too. */
export async function requireLiveStack(sql: Sql, id: string): Promise<void> {
  if ((await stacks.get(sql, { id })) === null) throw new ApiError('stack_not_found', 'no such stack')
}
