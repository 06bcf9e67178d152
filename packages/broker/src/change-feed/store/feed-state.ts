// Epoch and boot ids of the database. A restored or promoted database gets a new epoch.
import { count, maybe, one, rows, type Slot, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Row = z.object({
  epoch: z.string(),
  /** Null before the first start. */
  boot: z.string().nullable(),
  cursor_key: z.instanceof(Buffer),
  floor_xid: z.string(),
  is_same_history: z.boolean(),
  is_same_boot: z.boolean(),
  standby: z.boolean(),
  schema: z.string(),
  floor_age_seconds: z.number().nullable(),
})
export type FeedState = z.output<typeof Row>

/** The timeline is read from the current WAL file's name: the control file lags until a checkpoint. */
const timeline = `('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int`

const databaseOid = `(select oid from pg_database where datname = current_database())`

/** Joined to `feed_state f`: the identity of the server and the last stored boot. */
const identityJoins = `cross join pg_control_system() s left join feed_boots b on b.boot = f.boot`
/** The same cluster, timeline and database, and not a copy: a dumped and loaded row has another xmin than its stored transaction id. */
const sameHistory = `f.system_identifier = s.system_identifier and f.timeline = ${timeline}
         and (b.boot is null or (b.database_oid = ${databaseOid} and b.written_xid::xid = b.xmin))`
const sameBoot = `coalesce(b.server_started_at = pg_postmaster_start_time(), false)`

export const read = one(
  'feed_state.read',
  Row,
  () => `
  select f.epoch, f.boot, f.cursor_key, f.floor_xid::text, pg_is_in_recovery() as standby, current_schema()::text as schema,
         (select extract(epoch from now() - min(m.taken_at))::float8 from feed_marks m where m.low_xid >= f.floor_xid and f.floor_xid > '0'::xid8) as floor_age_seconds,
         case when pg_is_in_recovery() then true else ${sameHistory} end as is_same_history,
         pg_is_in_recovery() or ${sameBoot} as is_same_boot
  from feed_state f ${identityJoins}`,
)

/** SQL condition: the server is the primary of this epoch and boot. Evaluated in the statement that a stream starts from, because the
 *  reader may not have noticed a failover or a restored backup yet. */
export const inHistory = (epoch: Slot, boot: Slot): string => `(
  select case when pg_is_in_recovery() then false
         else f.epoch = ${epoch}::uuid and coalesce(f.boot = ${boot}::uuid, false) and ${sameBoot} and ${sameHistory} end
  from feed_state f ${identityJoins})`

/** True if epoch and boot are still current; also returns xmax. */
export const isCurrent = one(
  'feed_state.isCurrent',
  z.object({ is_current: z.boolean(), xmax: z.string() }),
  (p: Slots<{ epoch: string; boot: string }>) => `
  select ${inHistory(p.epoch, p.boot)} as is_current, pg_snapshot_xmax(pg_current_snapshot())::text as xmax`,
)

/** First statement of a transaction: all its statements then use one database snapshot. */
export const useOneSnapshot = count('feed_state.useOneSnapshot', () => `set transaction isolation level repeatable read, read only`)

const newBoot = (boot: Slot, from: string): string => `
    insert into feed_boots (boot, server_started_at, database_oid, written_xid)
    select ${boot}::uuid, pg_postmaster_start_time(), ${databaseOid}, pg_current_xact_id() from ${from}`

/** Compare-and-set: of several processes that notice the same break, one starts the epoch and the others read it. Floor, watermarks and
 *  boots are transaction ids of the old epoch and are meaningless in the new one. */
export const renewEpoch = maybe(
  'feed_state.renewEpoch',
  z.object({ epoch: z.string() }),
  (p: Slots<{ seen: string; epoch: string; boot: string }>) => `
  with renewed as (
    update feed_state f set epoch = ${p.epoch}::uuid, boot = ${p.boot}::uuid, system_identifier = s.system_identifier,
      timeline = ${timeline}, floor_xid = pg_snapshot_xmin(pg_current_snapshot())
    from pg_control_system() s
    where f.epoch = ${p.seen}::uuid
    returning f.epoch),
  forgotten_marks as (delete from feed_marks where exists (select from renewed)),
  forgotten_boots as (delete from feed_boots where exists (select from renewed)),
  begun as (${newBoot(p.boot, 'renewed')})
  select epoch from renewed`,
)

/** Number of boots kept; more than the retention of cursors needs. */
const bootsMax = 10_000

/** First transaction id after this server start, from the last checkpoint. 0 if a later checkpoint replaced it; then cursors of earlier
 *  boots are rejected. */
const firstXid = `(
    select case when c.checkpoint_time > pg_postmaster_start_time() + interval '1 minute' then '0'::xid8
           else least(pg_snapshot_xmax(pg_current_snapshot()),
                      (split_part(c.next_xid, ':', 1)::numeric * 4294967296 + split_part(c.next_xid, ':', 2)::numeric)::text::xid8) end
    from pg_control_checkpoint() c)`

/** Stores a new boot after a server start, by compare-and-set as for the epoch. */
export const beginBoot = maybe(
  'feed_state.beginBoot',
  z.object({ boot: z.string() }),
  (p: Slots<{ seen: string | null; boot: string }>) => `
  with begun as (
    update feed_state set boot = ${p.boot}::uuid where boot is not distinct from ${p.seen}::uuid returning boot),
  ended as (
    update feed_boots set ended_xid = ${firstXid} where boot = ${p.seen}::uuid and exists (select from begun)),
  forgotten as (
    delete from feed_boots where exists (select from begun) and boot in (select boot from feed_boots order by noticed_at desc offset ${bootsMax})),
  made as (${newBoot(p.boot, 'begun')})
  select boot from begun`,
)

export const listEndedBoots = rows(
  'feed_state.listEndedBoots',
  z.object({ boot: z.string(), ended_xid: z.string() }),
  () => `select boot, ended_xid::text from feed_boots where ended_xid is not null`,
)

/** Number of a stream, and the PAK fingerprint of its agent at the start. */
export const nextSession = one(
  'feed_state.nextSession',
  z.object({ session: z.int(), key_mark: z.string().nullable() }),
  (p: Slots<{ agent_id: string }>) => `
  select nextval('stream_sessions') as session,
         (select md5(pak_hash) from agents where id = ${p.agent_id}::uuid and deleted_at is null) as key_mark`,
)

/** Age of the oldest running transaction, by database time. */
export const oldestTransaction = one(
  'feed_state.oldestTransaction',
  z.object({ age_seconds: z.number() }),
  () => `
  select coalesce(extract(epoch from clock_timestamp() - min(xact_start)), 0)::float8 as age_seconds
  from pg_stat_activity where backend_xid is not null`,
)

/** Committed before any row below it goes, so that no cursor is accepted whose rows are missing. Never falls. */
export const raiseFloor = count(
  'feed_state.raiseFloor',
  (p: Slots<{ floor: string }>) => `update feed_state set floor_xid = ${p.floor}::xid8 where floor_xid < ${p.floor}::xid8`,
)
