// Sends messages again: each as a new delivery with the event and the text of the old one, so that a receiver can tell it knows it.
import { ApiError } from '@brokkr/contract/error.ts'
import type { WebhookDelivery } from '@brokkr/contract/webhook.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { uuid7 } from '../domain/uuid7.ts'
import type { Sql } from '../store/sql.ts'
import * as webhookDeliveries from '../store/webhook-deliveries.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'

type Deps = { sql: Sql; wakeFeed: () => void }

export async function replayDelivery(deps: Deps, { id, by }: { id: string; by: Actor }): Promise<WebhookDelivery> {
  const made = await deps.sql.begin(async (sql) => {
    const again = await webhookDeliveries.replay(sql, { id: uuid7(), of: id })
    if (again === null) throw new ApiError('delivery_not_found', 'no such delivery')
    await recordDeed(sql, { by, action: 'webhook.replayed', on: on(again.subscription_id), details: { delivery_id: id, count: 1 } })
    return again
  })
  deps.wakeFeed()
  return made
}

export interface ReplayWish {
  readonly subscriptionId: string
  readonly since: string
  readonly until: string | null
  readonly eventTypes: string[] | null
  /** Null: the dead ones. */
  readonly statuses: string[] | null
  readonly by: Actor
}
const replaysMax = 10_000

/** Oldest first; how many. */
export async function replayDeliveries(deps: Deps, wish: ReplayWish): Promise<{ count: number }> {
  const { subscriptionId: subscription_id, since, until, eventTypes: event_types, by } = wish
  const replayed = await deps.sql.begin(async (sql) => {
    if ((await webhookSubscriptions.get(sql, { id: subscription_id })) === null) throw new ApiError('webhook_not_found', 'no such webhook')
    const statuses = wish.statuses ?? ['dead']
    const count = await webhookDeliveries.replayMany(sql, { subscription_id, since, until, event_types, statuses, limit: replaysMax })
    await recordDeed(sql, { by, action: 'webhook.replayed', on: on(subscription_id), details: { since, until, count } })
    return count
  })
  deps.wakeFeed()
  return { count: replayed }
}

const on = (id: string) => ({ type: 'webhook_subscription', id })
