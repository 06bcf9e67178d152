// Leases of deliveries, by database time. acquired_until is the lease token: a result is stored only under the lease that sent the
// delivery.
import { count, maybe, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Claimed = z.object({
  id: z.string(),
  subscription_id: z.string(),
  event_type: z.string(),
  payload: z.string(),
  attempts: z.int(),
  created_at: z.string(),
  acquired_until: z.string(),
  url_sealed: z.instanceof(Buffer),
  auth_sealed: z.instanceof(Buffer).nullable(),
  secret_sealed: z.instanceof(Buffer),
  old_secret_sealed: z.instanceof(Buffer).nullable(),
  timeout_seconds: z.int(),
  max_retries: z.int(),
})
export type ClaimedDelivery = z.output<typeof Claimed>
const claimedColumns = `d.id, d.subscription_id, d.event_type, d.payload, d.attempts, d.created_at, d.acquired_until, s.url_sealed, s.auth_sealed, s.secret_sealed,
  case when s.old_secret_until > now() then s.old_secret_sealed end as old_secret_sealed, s.timeout_seconds, s.max_retries`
const leaseEnd = `now() + (s.timeout_seconds + 30) * interval '1 second'`

/** Leases pending deliveries that brokers send: at most `slots` of each subscription, so that no backlog or hung receiver fills the batch
 *  (concurrent claims can exceed it). Safe with many brokers; rows have no order. */
export const claim = rows(
  'delivery_leases.claim',
  Claimed,
  (p: Slots<{ limit: number; slots: number }>) => `
  with due as materialized (
    select slice.id from webhook_subscriptions w cross join lateral (
      select d.id, d.created_at from webhook_deliveries d
      where d.subscription_id = w.id and d.status = 'pending' and coalesce(cardinality(d.target_labels), 0) = 0
      order by d.created_at, d.id
      limit greatest(0, ${p.slots}::int - (select count(*) from webhook_deliveries a where a.subscription_id = w.id and a.status = 'acquired'))
      for no key update skip locked) slice
    where w.enabled order by slice.created_at, slice.id limit ${p.limit}::int)
  update webhook_deliveries d set status = 'acquired', acquired_until = ${leaseEnd}
  from due, webhook_subscriptions s where d.id = due.id and s.id = d.subscription_id
  returning ${claimedColumns}`,
)

/** The same for an agent: deliveries whose target labels the agent has. */
export const claimForAgent = rows(
  'delivery_leases.claimForAgent',
  Claimed,
  (p: Slots<{ agent_id: string; limit: number }>) => `
  with due as materialized (
    select d.id from webhook_deliveries d join webhook_subscriptions w on w.id = d.subscription_id and w.enabled
    where d.status = 'pending' and cardinality(d.target_labels) > 0
      and d.target_labels <@ (select coalesce(array_agg(l.label::text), '{}') from agent_labels l where l.agent_id = ${p.agent_id}::uuid)
    order by d.created_at, d.id limit ${p.limit}::int for no key update of d skip locked)
  update webhook_deliveries d set status = 'acquired', acquired_by = ${p.agent_id}::uuid, acquired_until = ${leaseEnd}
  from due, webhook_subscriptions s where d.id = due.id and s.id = d.subscription_id
  returning ${claimedColumns}`,
)

export interface FinishedDelivery {
  readonly id: string
  /** Agent that holds the lease; null for a broker. */
  readonly holder: string | null
  readonly acquired_until: string
  readonly status: 'success' | 'failed' | 'dead'
  readonly delay_seconds: number | null
  readonly status_code: number | null
  readonly error: string | null
}
/** Null if the lease expired or the delivery was deleted. */
export const finish = maybe(
  'delivery_leases.finish',
  z.object({ attempts: z.int(), next_retry_at: z.string().nullable() }),
  (p: Slots<FinishedDelivery>) => `
  update webhook_deliveries set status = ${p.status}::text, attempts = attempts + 1, last_attempt_at = now(), acquired_until = null,
    acquired_by = case when ${p.status}::text = 'failed' then null else acquired_by end,
    next_retry_at = now() + ${p.delay_seconds}::float8 * interval '1 second',
    completed_at = case when ${p.status}::text <> 'failed' then now() end,
    last_error = ${p.error}::text, last_status_code = ${p.status_code}::int
  where id = ${p.id}::uuid and status = 'acquired' and acquired_until = ${p.acquired_until}::timestamptz
    and acquired_by is not distinct from ${p.holder}::uuid
  returning attempts, next_retry_at`,
)

const releaseAssignments = `status = 'pending', acquired_until = null, acquired_by = null`

/** Releases unsent deliveries at shutdown, so that they need not wait for lease expiry. */
export const release = count(
  'delivery_leases.release',
  (p: Slots<{ ids: string[]; untils: string[] }>) => `
  update webhook_deliveries d set ${releaseAssignments} from unnest(${p.ids}::uuid[], ${p.untils}::timestamptz[]) as held (id, acquired_until)
  where d.id = held.id and d.status = 'acquired' and d.acquired_until = held.acquired_until`,
)

/** Releases deliveries whose lease expired; they are sent again. */
export const releaseLapsed = count(
  'delivery_leases.releaseLapsed',
  (p: Slots<{ limit: number }>) => `
  update webhook_deliveries set ${releaseAssignments} where id in (
    select id from webhook_deliveries where status = 'acquired' and acquired_until < now()
    order by acquired_until limit ${p.limit}::int for no key update skip locked)`,
)

export const retryDue = count(
  'delivery_leases.retryDue',
  (p: Slots<{ limit: number }>) => `
  update webhook_deliveries set status = 'pending', next_retry_at = null where id in (
    select id from webhook_deliveries where status = 'failed' and next_retry_at <= now()
    order by next_retry_at limit ${p.limit}::int for no key update skip locked)`,
)

/** Locks a delivery before its agent reports the result. */
export const lockForResult = maybe(
  'delivery_leases.lockForResult',
  z.object({
    subscription_id: z.string(),
    acquired_by: z.string().nullable(),
    acquired_until: z.string().nullable(),
    is_held: z.boolean(),
    attempts: z.int(),
    max_retries: z.int(),
  }),
  (p: Slots<{ id: string }>) => `
  select d.subscription_id, d.acquired_by, d.acquired_until, d.status = 'acquired' and d.acquired_until > now() as is_held, d.attempts, s.max_retries
  from webhook_deliveries d join webhook_subscriptions s on s.id = d.subscription_id where d.id = ${p.id}::uuid for no key update of d`,
)
