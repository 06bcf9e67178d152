// Reading the feed: rows a snapshot cannot see, with the next snapshot, in one statement: those of the log, and revisions, which are rows
// of the feed themselves. The two probes are written as two index look-ups: one range filtered by visibility would make a single long
// writer re-read all that followed it.
import { count, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { joinStack } from '../../stacks/store/join-stack.ts'

const Row = z.object({
  cursor: z.string().nullable(),
  standby: z.boolean().nullable(),
  epoch: z.string().nullable(),
  boot: z.string().nullable(),
  floor_xid: z.string().nullable(),
  seq: z.int().nullable(),
  xid: z.string().nullable(),
  scope_kind: z.string().nullable(),
  scope_id: z.string().nullable(),
  object_kind: z.string().nullable(),
  object_id: z.string().nullable(),
  op: z.string().nullable(),
  age_seconds: z.number().nullable(),
})
export type PolledRow = z.output<typeof Row>
/** One pointer of the feed. */
export interface ChangeRow {
  /** Null: a revision. */
  readonly seq: number | null
  readonly xid: bigint
  readonly scope_kind: string
  readonly scope_id: string
  readonly object_kind: string
  readonly object_id: string | null
  readonly op: string
  /** Of canaries and new objects alone: how long ago it was written, by the database's clock alone. */
  readonly age_seconds: number | null
}
export const pollRowsMax = 5000

/** Behind what is true of the whole read, which has no transaction: of each one the rows of the log, then its revisions. */
const rowOrder = 'xid nulls first, seq nulls last, object_id'

/** What is true of the read as a whole stands on its first row alone, before those of the log: some hundred letters that are the same for
 *  every change cost more than the change. */
const buildPollSelect = (probed: string): string => `
  select pg_current_snapshot()::text as cursor, pg_is_in_recovery() as standby, f.epoch::text, f.boot::text, f.floor_xid::text,
         null::bigint as seq, null::xid8 as xid, null as scope_kind, null::uuid as scope_id, null as object_kind, null::uuid as object_id, null as op,
         null::float8 as age_seconds
  from feed_state f
  union all
  select null, null, null, null, null, c.seq, c.xid, c.scope_kind, c.scope_id, c.object_kind, c.object_id, c.op,
         case when c.object_kind in ('canary', 'deployment_object') then date_part('epoch', clock_timestamp() - c.created_at) end
  from (${probed}) as c
  order by ${rowOrder}`

const fromLog = `select seq, xid, scope_kind, scope_id, object_kind, object_id, op, created_at from change_log`
/** A deployment object is its own change row. A transaction id that the database has not reached yet comes from a backup of another history. */
const fromRevisions = `select null::bigint as seq, xid, 'stack' as scope_kind, stack_id as scope_id, 'deployment_object' as object_kind, id as object_id,
      'insert' as op, created_at from deployment_objects`
const isOurs = `xid < pg_snapshot_xmax(pg_current_snapshot())`

/** Always returns a row, because the cursor moves even when nothing of ours did. As many rows as the limit, and that one, say "page it".
 *  Epoch and floor come along: whose history it is and whether the log still held everything is true of the very instant it was read. */
export const poll = rows('change_log.poll', Row, (p: Slots<{ xmax: string; in_flight: string[] }>) =>
  buildPollSelect(`
    (${fromLog} where xid >= ${p.xmax}::xid8 order by xid limit ${pollRowsMax + 1})
    union all
    (${fromLog} where xid = any(${p.in_flight}::xid8[]) order by xid limit ${pollRowsMax + 1})
    union all
    (${fromRevisions} where xid >= ${p.xmax}::xid8 and ${isOurs} order by xid limit ${pollRowsMax + 1})
    union all
    (${fromRevisions} where xid = any(${p.in_flight}::xid8[]) order by xid limit ${pollRowsMax + 1})`),
)

/** The last row of a page; a revision comes behind all rows of the log that its transaction wrote. */
export interface PageEnd {
  readonly after_xid: string
  readonly after_seq: string
  readonly after_id: string
}
export const beforeFirst: PageEnd = { after_xid: '0', after_seq: '0', after_id: '00000000-0000-0000-0000-000000000000' }
export const pageEnd = ({ seq, xid, object_id }: Pick<ChangeRow, 'seq' | 'xid' | 'object_id'>): PageEnd => ({
  after_xid: String(xid),
  after_seq: String(seq ?? 2n ** 63n - 1n),
  after_id: seq === null && object_id !== null ? object_id : beforeFirst.after_id,
})

/** A page of a large batch, read inside one repeatable-read transaction so that all pages share its snapshot. */
export const page = rows('change_log.page', Row, (p: Slots<{ xmax: string; in_flight: string[] } & PageEnd>) => {
  const ofLog = `(xid, seq) > (${p.after_xid}::xid8, ${p.after_seq}::bigint) order by xid, seq limit ${pollRowsMax}`
  const ofRevisions = `(xid, id) > (${p.after_xid}::xid8, ${p.after_id}::uuid) order by xid, id limit ${pollRowsMax}`
  return buildPollSelect(`
    (${fromLog} where xid = any(${p.in_flight}::xid8[]) and ${ofLog})
    union all
    (${fromLog} where xid >= ${p.xmax}::xid8 and ${ofLog})
    union all
    (${fromRevisions} where xid = any(${p.in_flight}::xid8[]) and ${ofRevisions})
    union all
    (${fromRevisions} where xid >= ${p.xmax}::xid8 and ${isOurs} and ${ofRevisions})
    order by ${rowOrder} limit ${pollRowsMax}`)
})

const ScopeRow = z.object({
  cursor: z.string(),
  epoch: z.string(),
  floor_xid: z.string(),
  scope_kind: z.string().nullable(),
  object_kind: z.string().nullable(),
  stack_id: z.string().nullable(),
})
/** What an agent's scopes (itself and its stacks) saw change since a cursor; the first half of a resumed stream. A stack names the
 *  transaction that changed last what it wants, which the triggers hold to: whether the cursor saw that one says as much as the stack's
 *  rows of the log, and what cannot be of this history (it came with a backup) is no news. Epoch and floor come along, so that the
 *  cursor's checks hold at the very instant the rows were read. */
export const sinceForAgent = rows(
  'change_log.sinceForAgent',
  ScopeRow,
  (p: Slots<{ agent_id: string; xmax: string; in_flight: string[] }>) => `
  select distinct pg_current_snapshot()::text as cursor, f.epoch, f.floor_xid::text, c.scope_kind, c.object_kind, c.stack_id
  from feed_state f left join (
    select scope_kind, object_kind, case when object_kind = 'target' then object_id end as stack_id from change_log
    where scope_kind = 'agent' and scope_id = ${p.agent_id}::uuid and xid >= ${p.xmax}::xid8
    union all
    select scope_kind, object_kind, case when object_kind = 'target' then object_id end from change_log
    where scope_kind = 'agent' and scope_id = ${p.agent_id}::uuid and xid = any(${p.in_flight}::xid8[])
    union all
    select 'stack', 'stack', s.id from agent_targets t ${joinStack('t.stack_id')}
    where t.agent_id = ${p.agent_id}::uuid and s.sequence_xid < pg_snapshot_xmax(pg_current_snapshot())
      and (s.sequence_xid >= ${p.xmax}::xid8 or s.sequence_xid = any(${p.in_flight}::xid8[]))
  ) as c on true`,
)

/** Wakes every process that listens. A statement of its own after the commit: inside a transaction it takes an instance-wide lock. It
 *  says nothing that must last, so its commit does not wait for the disk. */
export const notify = count(
  'change_log.notify',
  (p: Slots<{ channel: string; payload: string }>) => `
  select set_config('synchronous_commit', 'off', true), pg_notify(${p.channel}::text, ${p.payload}::text)`,
)

/** A change of nothing, from which every process measures how long news take. */
export const writeCanary = count(
  'change_log.writeCanary',
  (p: Slots<{ process: string }>) => `
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
  values ('control', '00000000-0000-0000-0000-000000000000', 'canary', ${p.process}::uuid, 'insert')`,
)

/** Rows that this history cannot have written: they came with a backup of another one, and would be news for ever. */
export const deleteForeign = count(
  'change_log.deleteForeign',
  (p: Slots<{ limit: number }>) => `
  delete from change_log where ctid = any(array(
    select ctid from change_log where xid >= pg_snapshot_xmax(pg_current_snapshot()) order by xid limit ${p.limit}::int for update skip locked))`,
)

/** A batch of what is below the floor, by the log's key; rows that another process deletes are passed over. */
export const deleteBelow = count(
  'change_log.deleteBelow',
  (p: Slots<{ floor: string; limit: number }>) => `
  delete from change_log where ctid = any(array(
    select ctid from change_log where xid < ${p.floor}::xid8 order by xid limit ${p.limit}::int for update skip locked))`,
)
