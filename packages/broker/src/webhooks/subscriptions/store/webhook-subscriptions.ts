// Webhook subscriptions. Address, credential and secrets are sealed columns; callers open them with the row's own id.
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { type TimeKey, touched } from '../../../schema/sql-fragments.ts'

const Enabled = z.object({ id: z.string(), event_types: z.array(z.string()), filters: z.unknown() })
export type EnabledRow = z.output<typeof Enabled>

/** Columns for matching, of all enabled subscriptions. */
export const enabled = rows(
  'webhook_subscriptions.enabled',
  Enabled,
  () => `select id, event_types, filters from webhook_subscriptions where enabled`,
)

const Row = z.object({
  id: z.string(),
  name: z.string(),
  has_auth_header: z.boolean(),
  event_types: z.array(z.string()),
  filters: z.unknown(),
  target_labels: z.array(z.string()).nullable(),
  enabled: z.boolean(),
  max_retries: z.int(),
  timeout_seconds: z.int(),
  created_by: z.string().nullable(),
  created_at: z.string(),
  updated_at: z.string(),
})
export type SubscriptionRow = z.output<typeof Row>
const columns = `id, name, auth_sealed is not null as has_auth_header, event_types, filters, target_labels, enabled, max_retries, timeout_seconds,
  created_by, created_at, updated_at`

export interface NewSubscription {
  readonly id: string
  readonly name: string
  readonly url_sealed: Buffer
  readonly auth_sealed: Buffer | null
  readonly secret_sealed: Buffer
  readonly event_types: string[]
  readonly filters: string | null
  readonly target_labels: string[] | null
  readonly max_retries: number
  readonly timeout_seconds: number
  readonly created_by: string
}
export const insert = one(
  'webhook_subscriptions.insert',
  Row,
  (p: Slots<NewSubscription>) => `
  insert into webhook_subscriptions (id, name, url_sealed, auth_sealed, secret_sealed, event_types, filters, target_labels, max_retries, timeout_seconds, created_by)
  values (${p.id}, ${p.name}, ${p.url_sealed}, ${p.auth_sealed}, ${p.secret_sealed}, ${p.event_types}::text[], ${p.filters}::jsonb, ${p.target_labels}::text[],
    ${p.max_retries}, ${p.timeout_seconds}, ${p.created_by})
  returning ${columns}`,
)

export const get = maybe(
  'webhook_subscriptions.get',
  Row,
  (p: Slots<{ id: string }>) => `select ${columns} from webhook_subscriptions where id = ${p.id}::uuid`,
)

export const list = rows(
  'webhook_subscriptions.list',
  Row,
  (p: Slots<TimeKey & { limit: number }>) => `
  select ${columns} from webhook_subscriptions where (created_at, id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
  order by created_at desc, id desc limit ${p.limit}::int`,
)

/** Locks the row until the transaction ends, so that it does not change between read and update. */
export const lock = maybe(
  'webhook_subscriptions.lock',
  Row,
  (p: Slots<{ id: string }>) => `select ${columns} from webhook_subscriptions where id = ${p.id}::uuid for no key update`,
)

export interface ChangedSubscription {
  readonly id: string
  readonly name: string
  /** null keeps the stored value. */
  readonly url_sealed: Buffer | null
  readonly auth_sealed: Buffer | null
  readonly event_types: string[]
  readonly filters: string | null
  readonly target_labels: string[] | null
  readonly enabled: boolean
  readonly max_retries: number
  readonly timeout_seconds: number
}
export const update = one(
  'webhook_subscriptions.update',
  Row,
  (p: Slots<ChangedSubscription>) => `
  update webhook_subscriptions set name = ${p.name}, url_sealed = coalesce(${p.url_sealed}::bytea, url_sealed),
    auth_sealed = coalesce(${p.auth_sealed}::bytea, auth_sealed), event_types = ${p.event_types}::text[], filters = ${p.filters}::jsonb,
    target_labels = ${p.target_labels}::text[], enabled = ${p.enabled}, max_retries = ${p.max_retries}, timeout_seconds = ${p.timeout_seconds}, ${touched}
  where id = ${p.id}::uuid returning ${columns}`,
)

/** Deletes its deliveries too. */
export const remove = count(
  'webhook_subscriptions.remove',
  (p: Slots<{ id: string }>) => `delete from webhook_subscriptions where id = ${p.id}::uuid`,
)

/** Sealed parts of a delivery; the old secret until it expires. */
const Sealed = z.object({
  id: z.string(),
  url_sealed: z.instanceof(Buffer),
  auth_sealed: z.instanceof(Buffer).nullable(),
  secret_sealed: z.instanceof(Buffer),
  old_secret_sealed: z.instanceof(Buffer).nullable(),
  timeout_seconds: z.int(),
})
export const sealed = maybe(
  'webhook_subscriptions.sealed',
  Sealed,
  (p: Slots<{ id: string }>) => `
  select id, url_sealed, auth_sealed, secret_sealed, case when old_secret_until > now() then old_secret_sealed end as old_secret_sealed, timeout_seconds
  from webhook_subscriptions where id = ${p.id}::uuid`,
)

export const lockSecret = maybe(
  'webhook_subscriptions.lockSecret',
  z.object({ secret_sealed: z.instanceof(Buffer) }),
  (p: Slots<{ id: string }>) => `select secret_sealed from webhook_subscriptions where id = ${p.id}::uuid for no key update`,
)

export const rotateSecret = count(
  'webhook_subscriptions.rotateSecret',
  (p: Slots<{ id: string; secret_sealed: Buffer; old_secret_sealed: Buffer | null; old_seconds: number }>) => `
  update webhook_subscriptions set secret_sealed = ${p.secret_sealed}::bytea, old_secret_sealed = ${p.old_secret_sealed}::bytea,
    old_secret_until = case when ${p.old_secret_sealed}::bytea is not null then now() + ${p.old_seconds}::float8 * interval '1 second' end, ${touched}
  where id = ${p.id}::uuid`,
)
