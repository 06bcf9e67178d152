// Admin keys: several, named, each with its own reach and end.
import { z } from 'zod'
import { count, one, type Slots } from './sql.ts'

export const countLive = one(
  'admin_role.countLive',
  z.object({ live: z.int() }),
  () => `select count(*) as live from admin_role where deleted_at is null`,
)

export const countLiveAmong = one(
  'admin_role.countLiveAmong',
  z.object({ live: z.int() }),
  (p: Slots<{ hashes: string[] }>) => `
  select count(*) as live from admin_role where pak_hash = any(${p.hashes}::text[]) and deleted_at is null`,
)

export const insert = count(
  'admin_role.insert',
  (p: Slots<{ id: string; name: string; pak_hash: string; pak_short: string | null }>) => `
  insert into admin_role (id, name, pak_hash, pak_short) values (${p.id}, ${p.name}, ${p.pak_hash}, ${p.pak_short})`,
)

/** Held until the transaction ends: two processes that start at once make one first key. */
export const lockBootstrap = count(
  'admin_role.lockBootstrap',
  () => `select pg_advisory_xact_lock(hashtextextended('brokkr:bootstrap:' || current_schema(), 0))`,
)
