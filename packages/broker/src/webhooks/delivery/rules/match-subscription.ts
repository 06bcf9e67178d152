// Matches subscriptions with events. A filter on a field that the event does not have never matches.
import { matchesEvent, type WebhookEventType } from '@brokkr/contract/webhooks/event-types.ts'

export interface Subscription {
  readonly id: string
  readonly event_types: readonly string[]
  /** null matches every event; `unreadable` filters match none. */
  readonly filters: { readonly agent_id?: string | undefined; readonly stack_id?: string | undefined } | 'unreadable' | null
}
/** `at` is database time. */
export interface WebhookEvent {
  readonly type: WebhookEventType
  readonly at: string
  readonly data: Readonly<Record<string, unknown>>
}

export const matchesType = ({ event_types }: Subscription, type: WebhookEventType): boolean =>
  event_types.some((pattern) => matchesEvent(pattern, type))

export const matchesSubscription = (subscription: Subscription, { type, data }: WebhookEvent): boolean =>
  matchesType(subscription, type) && passesFilters(subscription.filters, data)

function passesFilters(filters: Subscription['filters'], data: WebhookEvent['data']): boolean {
  if (filters === 'unreadable') return false
  return (['agent_id', 'stack_id'] as const).every((field) => filters?.[field] === undefined || filters[field] === data[field])
}
