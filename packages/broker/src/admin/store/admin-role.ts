// Admin PAKs, each with a name, a scope and an expiry.
import { AdminPak } from '@brokkr/contract/auth/admin-pak.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

/** A full PAK is writable, has no scope limit and has not expired. */
const isFull = `not readonly and scope is null and (expires_at is null or expires_at > now())`

/** 1 at the first start of a broker on this database, else 0. */
export const recordFirstStart = count(
  'admin_role.recordFirstStart',
  () => `insert into app_initialization select where not exists (select from app_initialization)`,
)

/** `ever`: a PAK exists or existed. `full`: a live PAK with all rights is left. */
export const existing = one(
  'admin_role.existing',
  z.object({ ever: z.boolean(), full: z.boolean() }),
  () => `
  select exists (select from admin_role) as ever, exists (select from admin_role where deleted_at is null and ${isFull}) as "full"`,
)

/** True for a hash that was an admin PAK and no longer is one: revoked, rotated or expired. */
export const wasRevoked = one(
  'admin_role.wasRevoked',
  z.object({ revoked: z.boolean() }),
  (p: Slots<{ pak_hash: string }>) => `
  select exists (select from admin_role where pak_hash = ${p.pak_hash}::text and (deleted_at is not null or expires_at <= now()))
    or exists (select from replaced_admin_hashes where pak_hash = ${p.pak_hash}::text) as revoked`,
)

export const countLiveAmong = one(
  'admin_role.countLiveAmong',
  z.object({ live: z.int() }),
  (p: Slots<{ hashes: string[] }>) => `
  select count(*) as live from admin_role where pak_hash = any(${p.hashes}::text[]) and deleted_at is null`,
)

const columns = `id, name, pak_short as short_token, readonly, scope, expires_at, last_used_at, created_at`

export interface NewAdminRow {
  readonly id: string
  readonly name: string
  readonly pak_hash: string
  readonly pak_short: string | null
  readonly readonly: boolean
  readonly scope: readonly string[] | null
  readonly expires_at: string | null
}
export const insert = one(
  'admin_role.insert',
  AdminPak,
  (p: Slots<NewAdminRow>) => `
  insert into admin_role (id, name, pak_hash, pak_short, readonly, scope, expires_at)
  values (${p.id}, ${p.name}, ${p.pak_hash}, ${p.pak_short}, ${p.readonly}, ${p.scope}::text[], ${p.expires_at}::timestamptz) returning ${columns}`,
)

export const list = rows(
  'admin_role.list',
  AdminPak,
  (p: Slots<{ limit: number }>) => `select ${columns} from admin_role where deleted_at is null order by name, id limit ${p.limit}::int`,
)

export const get = maybe(
  'admin_role.get',
  AdminPak,
  (p: Slots<{ id: string }>) => `select ${columns} from admin_role where id = ${p.id}::uuid and deleted_at is null`,
)

export const setKey = maybe(
  'admin_role.setKey',
  AdminPak,
  (p: Slots<{ id: string; pak_hash: string; pak_short: string | null }>) => `
  with replaced as (
    insert into replaced_admin_hashes (pak_hash)
    select pak_hash from admin_role where id = ${p.id}::uuid and deleted_at is null and pak_hash <> ${p.pak_hash}
    on conflict do nothing)
  update admin_role set pak_hash = ${p.pak_hash}, pak_short = ${p.pak_short}::text, updated_at = now()
  where id = ${p.id}::uuid and deleted_at is null returning ${columns}`,
)

/** null if no live PAK has this id. */
export const rights = maybe(
  'admin_role.rights',
  z.object({ name: z.string(), scope: z.array(z.string()).nullable(), is_full: z.boolean(), other_full: z.int() }),
  (p: Slots<{ id: string }>) => `
  select name, scope, ${isFull} as is_full,
    (select count(*) from admin_role where deleted_at is null and id <> ${p.id}::uuid and ${isFull}) as other_full
  from admin_role where id = ${p.id}::uuid and deleted_at is null`,
)

export const markDeleted = count(
  'admin_role.markDeleted',
  (p: Slots<{ id: string }>) =>
    `update admin_role set deleted_at = now(), updated_at = now() where id = ${p.id}::uuid and deleted_at is null`,
)

/** Writes no change row: last use does not change the credential. */
export const touch = count(
  'admin_role.touch',
  (p: Slots<{ ids: string[] }>) => `update admin_role set last_used_at = now() where id = any(${p.ids}::uuid[]) and deleted_at is null`,
)

export const wasUsed = one(
  'admin_role.wasUsed',
  z.object({ used: z.boolean() }),
  () => `select exists (select from admin_role where last_used_at is not null and deleted_at is null) as used`,
)

/** Serializes transactions that change admin PAKs, so that none counts a PAK that another is revoking. Held until the transaction ends. */
export const lock = count(
  'admin_role.lock',
  () => `select pg_advisory_xact_lock(hashtextextended('brokkr:bootstrap:' || current_schema(), 0))`,
)

/** Keys that ended a while ago leave the list. */
export const removeExpired = count(
  'admin_role.removeExpired',
  (p: Slots<{ days: number }>) => `
  update admin_role set deleted_at = now(), updated_at = now()
  where deleted_at is null and expires_at < now() - ${p.days}::float8 * interval '1 day'`,
)
