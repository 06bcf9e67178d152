// The identity of this database's history: a restored or promoted database meets a mismatch and gets a new epoch.
import { z } from 'zod'
import { count, maybe, one, type Slot, type Slots } from './sql.ts'

const Row = z.object({
  epoch: z.string(),
  cursor_key: z.instanceof(Buffer),
  floor_xid: z.string(),
  is_same_history: z.boolean(),
  standby: z.boolean(),
  schema: z.string(),
  floor_age_seconds: z.number().nullable(),
})
export type FeedState = z.output<typeof Row>

/** The timeline is read from the current WAL file's name: the control file lags until a checkpoint. */
const timeline = `('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int`

export const read = one(
  'feed_state.read',
  Row,
  () => `
  select f.epoch, f.cursor_key, f.floor_xid::text, pg_is_in_recovery() as standby, current_schema()::text as schema,
         (select extract(epoch from now() - min(m.taken_at))::float8 from feed_marks m where m.low_xid >= f.floor_xid and f.floor_xid > '0'::xid8) as floor_age_seconds,
         case when pg_is_in_recovery() then true else f.system_identifier = s.system_identifier and f.timeline = ${timeline} end as is_same_history
  from feed_state f cross join pg_control_system() s`,
)

/** Whether who answers is the primary of the history that this epoch names. It stands beside what a stream starts from: the
 *  reader may not have noticed yet that a standby took over. */
export const inHistory = (epoch: Slot): string => `(
  select case when pg_is_in_recovery() then false
         else f.epoch = ${epoch}::uuid and f.system_identifier = s.system_identifier and f.timeline = ${timeline} end
  from feed_state f cross join pg_control_system() s)`

/** First in a transaction: all its statements then see one instant. */
export const holdInstant = count('feed_state.holdInstant', () => `set transaction isolation level repeatable read, read only`)

/** Compare-and-set: of several processes that notice the same break, one renews and the others read its epoch. The floor and the
 *  marks of the old history are numbers of its transactions and say nothing about those of this one. */
export const renewEpoch = maybe(
  'feed_state.renewEpoch',
  z.object({ epoch: z.string() }),
  (p: Slots<{ seen: string; epoch: string }>) => `
  with renewed as (
    update feed_state f set epoch = ${p.epoch}::uuid, system_identifier = s.system_identifier, timeline = ${timeline},
      floor_xid = pg_snapshot_xmin(pg_current_snapshot())
    from pg_control_system() s
    where f.epoch = ${p.seen}::uuid
    returning f.epoch),
  forgotten as (delete from feed_marks where exists (select from renewed))
  select epoch from renewed`,
)

/** The number of a stream, and what the agent's key looks like as it begins. */
export const nextSession = one(
  'feed_state.nextSession',
  z.object({ session: z.int(), key_mark: z.string().nullable() }),
  (p: Slots<{ agent_id: string }>) => `
  select nextval('stream_sessions') as session,
         (select md5(pak_hash) from agents where id = ${p.agent_id}::uuid and deleted_at is null) as key_mark`,
)

/** The numbers that clocks of this database alone can tell: its oldest transaction under way. */
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
