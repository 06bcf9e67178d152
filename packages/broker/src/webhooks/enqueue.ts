// Tells webhooks of what an action does: one delivery for each subscription that wants to know, in the action's own transaction. An event
// that nobody wants sends no statement.
import type { WebhookEventType, WebhookMessage } from '@brokkr/contract/webhook-event.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { type HookEvent, matches, wantsType } from '../domain/webhook-match.ts'
import type { Sql } from '../store/sql.ts'
import * as webhookDeliveries from '../store/webhook-deliveries.ts'
import type { Subscriptions } from './subscriptions.ts'

export async function enqueue(sql: Sql, hooks: Subscriptions, events: readonly HookEvent[]): Promise<void> {
  const subscriptions = await hooks.enabled(sql)
  if (subscriptions.length === 0) return
  const told = events.flatMap((event) => {
    const subscribers = subscriptions.filter((subscription) => matches(subscription, event))
    return subscribers.length === 0 ? [] : [{ id: uuid7(), event, subscribers }]
  })
  if (told.length === 0) return
  const deliveries = told.flatMap(({ id, subscribers }) =>
    subscribers.map((subscriber) => ({ event_id: id, subscription_id: subscriber.id })),
  )
  await webhookDeliveries.insertMany(sql, {
    event_ids: told.map(({ id }) => id),
    event_types: told.map(({ event }) => event.type),
    payloads: told.map(({ id, event }) => payloadOf(id, event)),
    ids: deliveries.map(() => uuid7()),
    of_events: deliveries.map(({ event_id }) => event_id),
    subscription_ids: deliveries.map(({ subscription_id }) => subscription_id),
  })
}

/** Whether anybody may want to know, for callers who have to look up what they would tell. */
export async function isWanted(sql: Sql, hooks: Subscriptions, types: readonly WebhookEventType[]): Promise<boolean> {
  const subscriptions = await hooks.enabled(sql)
  return subscriptions.some((subscription) => types.some((type) => wantsType(subscription, type)))
}

export function payloadOf(id: string, { type, at, data }: Omit<HookEvent, 'type'> & { readonly type: string }): string {
  const message: WebhookMessage = { id, event_type: type, timestamp: at, data }
  return JSON.stringify(message)
}
