// Releases the hold of a stack: agents get its newest deployment object. A release that changes the wanted object takes a number.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { stackReleased } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as holds from '../store/holds.ts'
import * as stackSummary from '../store/stack-summary.ts'
import * as stacks from '../store/stacks.ts'
import { requireOwnHold } from './hold-stack.ts'

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
