// Stored answers of calls with an Idempotency-Key. The lock tells "still running" from "done"; it ends with the transaction.
import { z } from 'zod'
import { count, maybe, one, rows, type Slots } from './sql.ts'

/** False: another call with this key is under way. A statement of its own, so that the next one sees what that call committed. */
export const tryLock = one(
  'idempotency_keys.tryLock',
  z.object({ locked: z.boolean() }),
  (p: Slots<{ scope: string; key: string }>) => `
  select pg_try_advisory_xact_lock(hashtextextended('brokkr:idempotency:' || current_schema() || ':' || ${p.scope}::text || ':' || ${p.key}::text, 0)) as locked`,
)

const Row = z.object({ id: z.string(), body_hash: z.string(), status: z.int(), body_sealed: z.instanceof(Buffer) })
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
/** Takes the place of one that has expired. */
export const put = count(
  'idempotency_keys.put',
  (p: Slots<NewAnswer>) => `
  insert into idempotency_keys (scope, key, id, body_hash, status, body_sealed, expires_at)
  values (${p.scope}, ${p.key}, ${p.id}, ${p.body_hash}, ${p.status}, ${p.body_sealed}, now() + ${p.seconds}::float8 * interval '1 second')
  on conflict (scope, key) do update set id = excluded.id, body_hash = excluded.body_hash, status = excluded.status, body_sealed = excluded.body_sealed,
    expires_at = excluded.expires_at, created_at = now()`,
)

export const removeExpired = count(
  'idempotency_keys.removeExpired',
  (p: Slots<{ limit: number }>) => `
  delete from idempotency_keys where id in (select id from idempotency_keys where expires_at <= now() order by expires_at limit ${p.limit}::int)`,
)

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })
export const sealedPage = rows(
  'idempotency_keys.sealedPage',
  Sealed,
  (p: Slots<{ after: string; since: string | null }>) => `
  select id, body_sealed as sealed from idempotency_keys
  where id > ${p.after}::uuid and (${p.since}::timestamptz is null or created_at >= ${p.since}) order by id limit 10`,
)
export const putSealed = count(
  'idempotency_keys.putSealed',
  (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update idempotency_keys set body_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and body_sealed = ${p.was}::bytea`,
)
