// Finished work orders. Each filter that selects few rows has a statement of its own, so that an index leads it.
import { WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import { count, maybe, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../../schema/sql-fragments.ts'

/** With the sealed text instead of the text. */
export const SealedLogEntry = WorkOrderLog.omit({ yaml_content: true }).extend({ attempt: z.int(), yaml_sealed: z.instanceof(Buffer) })
export type SealedLogEntry = z.output<typeof SealedLogEntry>

const source = `work_order_log w join work_order_contents t on t.id = w.id`
const columns = `w.id, w.work_type, w.created_at, w.claimed_at, w.completed_at, w.claimed_by, w.success, w.retries_attempted, w.result_message,
  w.attempt, t.yaml_sealed`

const Place = z.object({ id: z.string(), completed_at: z.string(), bytes: z.int() })
interface Filter extends TimeKey {
  readonly success: boolean | null
  readonly limit: number
}
const page = (p: Slots<Filter>, condition: string): string => `
  select w.id, w.completed_at, t.yaml_bytes as bytes from ${source}
  where ${condition} and (w.completed_at, w.id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
    and (${p.success}::boolean is null or w.success = ${p.success})
  order by w.completed_at desc, w.id desc limit ${p.limit}::int`

export const list = rows('work_order_log.list', Place, (p: Slots<Filter>) => page(p, 'true'))

export const listOfType = rows('work_order_log.listOfType', Place, (p: Slots<Filter & { work_type: string }>) =>
  page(p, `w.work_type = ${p.work_type}::text`),
)

export const listOfAgent = rows('work_order_log.listOfAgent', Place, (p: Slots<Filter & { agent_id: string; work_type: string | null }>) =>
  page(p, `w.claimed_by = ${p.agent_id}::uuid and (${p.work_type}::text is null or w.work_type = ${p.work_type})`),
)

/** Rows in no particular order. */
export const among = rows(
  'work_order_log.among',
  SealedLogEntry,
  (p: Slots<{ ids: string[] }>) => `select ${columns} from ${source} where w.id = any(${p.ids}::uuid[])`,
)

export const get = maybe(
  'work_order_log.get',
  SealedLogEntry,
  (p: Slots<{ id: string }>) => `select ${columns} from ${source} where w.id = ${p.id}::uuid`,
)

/** For a new order with the same content and targeting. */
export const getRequest = maybe(
  'work_order_log.getRequest',
  z.object({ success: z.boolean(), work_type: z.string(), request: z.unknown(), yaml_sealed: z.instanceof(Buffer) }),
  (p: Slots<{ id: string }>) => `select w.success, w.work_type, t.request, t.yaml_sealed from ${source} where w.id = ${p.id}::uuid`,
)

export const removeOld = count(
  'work_order_log.removeOld',
  (p: Slots<{ days: number; limit: number }>) => `
  with removed as (delete from work_order_log where id = any(array(
    select id from work_order_log where completed_at < now() - ${p.days}::float8 * interval '1 day'
    order by completed_at, id limit ${p.limit}::int for update skip locked)) returning id)
  delete from work_order_contents where id = any(array(select id from removed))`,
)
