// Which subscriptions are told of an event. A filter on something the event does not speak of never matches.
import { meansEvent, type WebhookEventType } from '@brokkr/contract/webhook-event.ts'

export interface Subscription {
  readonly id: string
  readonly event_types: readonly string[]
  /** Null: none; `unreadable` filters let nothing pass. */
  readonly filters: { readonly agent_id?: string | undefined; readonly stack_id?: string | undefined } | 'unreadable' | null
}
/** Something that happened; `at` is when, by the database's time. */
export interface HookEvent {
  readonly type: WebhookEventType
  readonly at: string
  readonly data: Readonly<Record<string, unknown>>
}

export const wantsType = ({ event_types }: Subscription, type: WebhookEventType): boolean =>
  event_types.some((pattern) => meansEvent(pattern, type))

export const matches = (subscription: Subscription, { type, data }: HookEvent): boolean =>
  wantsType(subscription, type) && passes(subscription.filters, data)

function passes(filters: Subscription['filters'], data: HookEvent['data']): boolean {
  if (filters === 'unreadable') return false
  return (['agent_id', 'stack_id'] as const).every((field) => filters?.[field] === undefined || filters[field] === data[field])
}
