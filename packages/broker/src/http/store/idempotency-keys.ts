// Stored responses of calls with an Idempotency-Key. A transaction lock marks a running call; actions that call the network use an
// in-progress row with a lease instead.
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

/** False if another call with this key is running. A separate statement, so that the next one sees what that call committed. */
export const tryLock = one(
  'idempotency_keys.tryLock',
  z.object({ locked: z.boolean() }),
  (p: Slots<{ scope: string; key: string }>) => `
  select pg_try_advisory_xact_lock(hashtextextended('brokkr:idempotency:' || current_schema() || ':' || ${p.scope}::text || ':' || ${p.key}::text, 0)) as locked`,
)

/** Status and body are null while the call is in progress. */
const Row = z.object({
  id: z.string(),
  body_hash: z.string(),
  status: z.int().nullable(),
  body_sealed: z.instanceof(Buffer).nullable(),
})
export type StoredAnswer = z.output<typeof Row>
export const find = maybe(
  'idempotency_keys.find',
  Row,
  (p: Slots<{ scope: string; key: string }>) => `
  select id, body_hash, status, body_sealed from idempotency_keys where scope = ${p.scope} and key = ${p.key} and expires_at > now()`,
)

export interface NewAnswer {
  readonly scope: string
  readonly key: string
  readonly id: string
  readonly body_hash: string
  readonly status: number
  readonly body_sealed: Buffer
  readonly seconds: number
}
/** Replaces an expired row. */
export const put = count(
  'idempotency_keys.put',
  (p: Slots<NewAnswer>) => `
  insert into idempotency_keys (scope, key, id, body_hash, status, body_sealed, expires_at)
  values (${p.scope}, ${p.key}, ${p.id}, ${p.body_hash}, ${p.status}, ${p.body_sealed}, now() + ${p.seconds}::float8 * interval '1 second')
  on conflict (scope, key) do update set id = excluded.id, body_hash = excluded.body_hash, status = excluded.status, body_sealed = excluded.body_sealed,
    expires_at = excluded.expires_at, lease_until = null, created_at = now()`,
)

export interface Claim {
  readonly scope: string
  readonly key: string
  readonly id: string
  readonly body_hash: string
  readonly seconds: number
  readonly lease_seconds: number
}
/** 1 if this call may run: the key is new or expired, or its lease ended and the body is the same. */
export const claim = count(
  'idempotency_keys.claim',
  (p: Slots<Claim>) => `
  insert into idempotency_keys as k (scope, key, id, body_hash, expires_at, lease_until)
  values (${p.scope}, ${p.key}, ${p.id}, ${p.body_hash}, now() + ${p.seconds}::float8 * interval '1 second', now() + ${p.lease_seconds}::float8 * interval '1 second')
  on conflict (scope, key) do update set id = excluded.id, body_hash = excluded.body_hash, status = null, body_sealed = null,
    expires_at = excluded.expires_at, lease_until = excluded.lease_until, created_at = now()
  where k.expires_at <= now() or (k.lease_until <= now() and k.body_hash = excluded.body_hash)`,
)

/** Changes nothing if another call claimed the key after the lease. */
export const complete = count(
  'idempotency_keys.complete',
  (p: Slots<{ id: string; status: number; body_sealed: Buffer; seconds: number }>) => `
  update idempotency_keys set status = ${p.status}::smallint, body_sealed = ${p.body_sealed}::bytea, lease_until = null,
    expires_at = now() + ${p.seconds}::float8 * interval '1 second'
  where id = ${p.id}::uuid and lease_until is not null`,
)

/** Frees the key of a failed call. */
export const release = count(
  'idempotency_keys.release',
  (p: Slots<{ id: string }>) => `delete from idempotency_keys where id = ${p.id}::uuid and lease_until is not null`,
)

export const removeExpired = count(
  'idempotency_keys.removeExpired',
  (p: Slots<{ limit: number }>) => `
  delete from idempotency_keys where id in (select id from idempotency_keys where expires_at <= now() order by expires_at limit ${p.limit}::int)`,
)

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })
export const sealedSample = rows(
  'idempotency_keys.sealedSample',
  Sealed,
  () =>
    `select id, body_sealed as sealed from idempotency_keys where body_sealed is not null and expires_at > now() order by id desc limit 1`,
)
export const sealedPage = rows(
  'idempotency_keys.sealedPage',
  Sealed,
  (p: Slots<{ after: string; since: string | null }>) => `
  select id, body_sealed as sealed from idempotency_keys
  where id > ${p.after}::uuid and body_sealed is not null and (${p.since}::timestamptz is null or created_at >= ${p.since}) order by id limit 10`,
)
export const putSealed = count(
  'idempotency_keys.putSealed',
  (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update idempotency_keys set body_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and body_sealed = ${p.was}::bytea`,
)
