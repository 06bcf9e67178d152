// Deliveries: one row for each message to each subscription.
import { count, type Slots } from './sql.ts'

export interface NewDeliveries {
  readonly event_ids: string[]
  readonly event_types: string[]
  readonly payloads: string[]
  /** One of each for every delivery. */
  readonly ids: string[]
  readonly of_events: string[]
  readonly subscription_ids: string[]
}
/** In the order given. A subscription that was deleted or switched off meanwhile is passed over; the lock keeps it until we commit. */
export const insertMany = count(
  'webhook_deliveries.insertMany',
  (p: Slots<NewDeliveries>) => `
  insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload, target_labels, created_at)
  select d.id, s.id, e.type, e.id, e.payload, s.target_labels, now() + e.place * interval '1 microsecond'
  from unnest(${p.event_ids}::uuid[], ${p.event_types}::text[], ${p.payloads}::text[]) with ordinality as e (id, type, payload, place)
  join unnest(${p.ids}::uuid[], ${p.of_events}::uuid[], ${p.subscription_ids}::uuid[]) as d (id, event_id, subscription_id) on d.event_id = e.id
  join webhook_subscriptions s on s.id = d.subscription_id and s.enabled
  for key share of s`,
)
