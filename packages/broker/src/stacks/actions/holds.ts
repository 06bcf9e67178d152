// Holds of stacks: hold and release.
import { ApiError } from '@brokkr/contract/errors.ts'
import { type Hold, waitingMax } from '@brokkr/contract/stacks/hold.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as deploymentObjects from '../../deployments/store/deployment-objects.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { stackHeld, stackReleased } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { decideHold, mayChangeHold } from '../rules.ts'
import * as holds from '../store/holds.ts'
import * as stackSummary from '../store/stack-summary.ts'
import * as stacks from '../store/stacks.ts'

// Holds a stack at one of its deployment objects, or moves an existing hold forward. The bound, the reason, the event and the audit entry
// are one transaction; the lock of the stack row comes first, so that no submission or release runs between.

export interface HoldRequest {
  readonly stackId: string
  /** Null: an existing hold keeps its object; otherwise the wanted one is held. */
  readonly sequenceId: number | null
  readonly reason: string
  readonly actor: Actor
}

export async function holdStack(
  deps: { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: (stackId?: string) => void },
  { stackId, sequenceId, reason, actor }: HoldRequest,
): Promise<Hold> {
  const hold = await deps.sql.begin(async (sql) => {
    const bounds = await stacks.lockBounds(sql, { id: stackId })
    if (bounds === null) throw new ApiError('stack_not_found', 'no such stack')
    const before = await holds.get(sql, { stack_id: stackId })
    requireOwnHold(before, actor)
    const wanted = await deploymentObjects.readWantedNumber(sql, { stack_id: stackId })
    const asked = sequenceId === null ? wanted : await deploymentObjects.findNumbered(sql, { stack_id: stackId, sequence_id: sequenceId })
    const decision = decideHold(wanted, asked)
    if (decision.do === 'refuse') throw new ApiError('hold_sequence_invalid', decision.reason)
    const { object, takesNumber } = decision
    const isRepeated = before !== null && isSameHold(before, { sequenceId: object.sequence_id, reason, actor })
    if (!isRepeated) {
      const bound = { id: stackId, object_id: object.id, sequence_id: object.sequence_id, takes_number: takesNumber }
      if (bounds.held_object_id !== object.id) await stacks.setBound(sql, bound)
      await recordHold(sql, deps.subscriptionCache, { stackId, sequenceId: object.sequence_id, reason, actor })
      if (takesNumber) await stackSummary.recountCurrent(sql, { stack_id: stackId })
    }
    return readHold(sql, stackId)
  })
  deps.wakeFeed(stackId)
  return hold
}

/** The row that says why, its audit entry and its event. The caller set the bound in this transaction. */
export async function recordHold(
  sql: Sql,
  subscriptionCache: SubscriptionCache,
  { stackId, sequenceId, reason, actor }: HoldRequest & { readonly sequenceId: number },
): Promise<void> {
  const by = { kind: actor.kind, id: actor.id }
  const row = await holds.put(sql, { stack_id: stackId, sequence_id: sequenceId, reason, by_kind: by.kind, by_id: by.id })
  const details = { sequence_id: sequenceId, reason }
  await recordAuditEntry(sql, { actor, action: 'stack.held', resource: { type: 'stack', id: stackId }, details })
  const event = stackHeld({ stack_id: stackId, sequence_id: sequenceId, reason, by, at: row.created_at })
  await enqueueDeliveries(sql, subscriptionCache, [event])
}

/** A hold of another caller is not the same: an admin who repeats the hold of a generator becomes its owner. */
const isSameHold = (hold: holds.HoldRow, { sequenceId, reason, actor }: Omit<HoldRequest, 'stackId'>): boolean =>
  hold.sequence_id === sequenceId && hold.reason === reason && hold.by_kind === actor.kind && hold.by_id === actor.id

export function requireOwnHold(hold: holds.HoldRow | null, actor: Actor): void {
  if (!mayChangeHold(hold, actor)) throw new ApiError('hold_not_owned', 'an admin set this hold: ask an admin to change or release it')
}

export async function readHold(sql: Sql, stackId: string): Promise<Hold> {
  const row = await holds.read(sql, { stack_id: stackId, limit: waitingMax })
  if (row === null) throw new ApiError('hold_not_found', 'the stack has no hold')
  const { by_kind, by_id, by_name, ...hold } = row
  return { ...hold, by: { kind: by_kind, id: by_id, name: by_name } } as Hold
}

/** Releases the hold of a stack: agents get its newest deployment object. A release that changes the wanted object takes a number. */
export async function releaseStack(
  deps: { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: (stackId?: string) => void },
  { stackId, reason, actor }: { stackId: string; reason: string | null; actor: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    const bounds = await stacks.lockBounds(sql, { id: stackId })
    if (bounds === null) throw new ApiError('stack_not_found', 'no such stack')
    const hold = await holds.get(sql, { stack_id: stackId })
    if (hold === null) throw new ApiError('hold_not_found', 'the stack has no hold')
    requireOwnHold(hold, actor)
    const takesNumber = bounds.held_object_id !== bounds.head_object_id
    await stacks.setBound(sql, { id: stackId, object_id: null, sequence_id: null, takes_number: takesNumber })
    const removed = await holds.remove(sql, { stack_id: stackId })
    const details = { sequence_id: hold.sequence_id, ...(reason === null ? {} : { reason }) }
    await recordAuditEntry(sql, { actor, action: 'stack.released', resource: { type: 'stack', id: stackId }, details })
    const by = { kind: actor.kind, id: actor.id }
    const event = stackReleased({ stack_id: stackId, sequence_id: hold.sequence_id, reason, by, at: removed?.at ?? hold.created_at })
    await enqueueDeliveries(sql, deps.subscriptionCache, [event])
    if (takesNumber) await stackSummary.recountCurrent(sql, { stack_id: stackId })
  })
  deps.wakeFeed(stackId)
}
