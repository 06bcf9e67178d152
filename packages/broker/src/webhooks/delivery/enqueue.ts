// Enqueues one delivery per matching subscription in the transaction of the action. An event without subscribers sends no statement.
import type { WebhookEventType, WebhookMessage } from '@brokkr/contract/webhooks/event-types.ts'
import type { Sql } from '@brokkr/postgres'
import { uuid7 } from '../../rules/uuid7.ts'
import type { SubscriptionCache } from '../subscriptions/subscription-cache.ts'
import { matchesSubscription, matchesType, type WebhookEvent } from './rules/webhook-events.ts'
import * as webhookDeliveries from './store/webhook-deliveries.ts'

export async function enqueueDeliveries(sql: Sql, subscriptionCache: SubscriptionCache, events: readonly WebhookEvent[]): Promise<void> {
  const subscriptions = await subscriptionCache.enabled(sql)
  if (subscriptions.length === 0) return
  const matchedEvents = events.flatMap((event) => {
    const subscribers = subscriptions.filter((subscription) => matchesSubscription(subscription, event))
    return subscribers.length === 0 ? [] : [{ id: uuid7(), event, subscribers }]
  })
  if (matchedEvents.length === 0) return
  const deliveries = matchedEvents.flatMap(({ id, subscribers }) =>
    subscribers.map((subscriber) => ({ event_id: id, subscription_id: subscriber.id })),
  )
  await webhookDeliveries.insertMany(sql, {
    event_ids: matchedEvents.map(({ id }) => id),
    event_types: matchedEvents.map(({ event }) => event.type),
    payloads: matchedEvents.map(({ id, event }) => toPayload(id, event)),
    ids: deliveries.map(() => uuid7()),
    of_events: deliveries.map(({ event_id }) => event_id),
    subscription_ids: deliveries.map(({ subscription_id }) => subscription_id),
  })
}

/** Whether a subscription may match, for callers that must read data to build the event. */
export async function hasSubscriber(sql: Sql, subscriptionCache: SubscriptionCache, types: readonly WebhookEventType[]): Promise<boolean> {
  const subscriptions = await subscriptionCache.enabled(sql)
  return subscriptions.some((subscription) => types.some((type) => matchesType(subscription, type)))
}

export function toPayload(id: string, { type, at, data }: Omit<WebhookEvent, 'type'> & { readonly type: string }): string {
  const message: WebhookMessage = { id, event_type: type, timestamp: at, data }
  return JSON.stringify(message)
}
