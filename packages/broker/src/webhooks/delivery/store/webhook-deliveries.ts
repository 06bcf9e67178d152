// Deliveries: one row for each message to each subscription. How they are claimed and finished is in delivery-leases.ts.
import { WebhookDelivery } from '@brokkr/contract/webhooks/subscription.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../../../schema/sql-fragments.ts'

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

const columns = `id, subscription_id, event_type, event_id, payload, target_labels, status, acquired_by, acquired_until, attempts, last_attempt_at,
  next_retry_at, last_error, created_at, completed_at, replay_of, last_status_code`

/** A page of a list: place and weight of each. They are read by id once it is clear how many fit. */
const Place = z.object({ id: z.string(), created_at: z.string(), bytes: z.int() })
const place = `id, created_at, octet_length(payload) as bytes`

export const listOfSubscription = rows(
  'webhook_deliveries.listOfSubscription',
  Place,
  (p: Slots<TimeKey & { subscription_id: string; status: string | null; limit: number; offset: number }>) => `
  select ${place} from webhook_deliveries
  where subscription_id = ${p.subscription_id}::uuid and (created_at, id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
    and (${p.status}::text is null or status = ${p.status})
  order by created_at desc, id desc limit ${p.limit}::int offset ${p.offset}::int`,
)

export const list = rows(
  'webhook_deliveries.list',
  Place,
  (p: Slots<TimeKey & { status: string | null; event_type: string | null; since: string | null; limit: number }>) => `
  select ${place} from webhook_deliveries
  where (created_at, id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid) and created_at >= coalesce(${p.since}::timestamptz, '-infinity')
    and (${p.status}::text is null or status = ${p.status}) and (${p.event_type}::text is null or event_type = ${p.event_type})
  order by created_at desc, id desc limit ${p.limit}::int`,
)

export const among = rows(
  'webhook_deliveries.among',
  WebhookDelivery,
  (p: Slots<{ ids: string[] }>) => `select ${columns} from webhook_deliveries where id = any(${p.ids}::uuid[])`,
)

/** The same event and message under a new id; to where its subscription sends now. */
export const replay = maybe(
  'webhook_deliveries.replay',
  WebhookDelivery,
  (p: Slots<{ id: string; of: string }>) => `
  insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload, target_labels, replay_of)
  select ${p.id}::uuid, d.subscription_id, d.event_type, d.event_id, d.payload, s.target_labels, d.id
  from webhook_deliveries d join webhook_subscriptions s on s.id = d.subscription_id where d.id = ${p.of}::uuid
  returning ${columns}`,
)

export interface Replayed {
  readonly subscription_id: string
  readonly since: string
  readonly until: string | null
  readonly event_types: string[] | null
  readonly statuses: string[]
  readonly limit: number
}
/** Oldest first. */
export const replayMany = count(
  'webhook_deliveries.replayMany',
  (p: Slots<Replayed>) => `
  insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload, target_labels, replay_of, created_at)
  select gen_random_uuid(), d.subscription_id, d.event_type, d.event_id, d.payload, s.target_labels, d.id,
    now() + row_number() over (order by d.created_at, d.id) * interval '1 microsecond'
  from webhook_subscriptions s cross join lateral (
    select * from webhook_deliveries w
    where w.subscription_id = s.id and w.created_at >= ${p.since}::timestamptz and w.created_at < coalesce(${p.until}::timestamptz, 'infinity')
      and w.status = any(${p.statuses}::text[]) and (${p.event_types}::text[] is null or w.event_type = any(${p.event_types}))
    order by w.created_at, w.id limit ${p.limit}::int) d
  where s.id = ${p.subscription_id}::uuid`,
)

export const removeEnded = count(
  'webhook_deliveries.removeEnded',
  (p: Slots<{ days: number; limit: number }>) => `
  delete from webhook_deliveries where id in (
    select id from webhook_deliveries where status in ('success', 'dead') and completed_at < now() - ${p.days}::float8 * interval '1 day'
    order by completed_at limit ${p.limit}::int)`,
)

/** Deliveries that only agents with all target labels may claim, and that none has delivered for so long. */
export const endUnclaimed = count(
  'webhook_deliveries.endUnclaimed',
  (p: Slots<{ days: number; limit: number }>) => `
  update webhook_deliveries set status = 'dead', completed_at = now(),
    last_error = 'no agent with all target labels (' || left(array_to_string(target_labels, ', '), 100) || ') delivered it within ' || ${p.days}::float8 || ' days'
  where id in (
    select id from webhook_deliveries
    where status = 'pending' and cardinality(target_labels) > 0 and created_at < now() - ${p.days}::float8 * interval '1 day'
    order by created_at limit ${p.limit}::int for no key update skip locked)`,
)

/** What waits, for people and for gauges. */
export const backlog = one(
  'webhook_deliveries.backlog',
  z.object({ pending: z.int(), acquired: z.int(), failed: z.int(), dead_24h: z.int(), oldest_pending_seconds: z.int().nullable() }),
  () => `
  select (select count(*) from webhook_deliveries where status = 'pending') as pending,
    (select count(*) from webhook_deliveries where status = 'acquired') as acquired,
    (select count(*) from webhook_deliveries where status = 'failed') as failed,
    (select count(*) from webhook_deliveries where status = 'dead' and created_at > now() - interval '1 day') as dead_24h,
    (select extract(epoch from now() - min(created_at))::int from webhook_deliveries where status = 'pending') as oldest_pending_seconds`,
)
