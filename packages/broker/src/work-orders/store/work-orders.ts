// Open work orders. Claims and their ends are in work-order-claims.ts, texts in work-order-contents.ts, finished orders in work-order-log.ts.
import { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../../schema/sql-fragments.ts'
import { acceptingStates } from '../rules/work-order-states.ts'
import { eligibleOrders } from './eligibility.ts'

/** With the sealed text instead of the text. */
export const SealedOrder = WorkOrder.omit({ yaml_content: true }).extend({ yaml_sealed: z.instanceof(Buffer) })
export type SealedOrder = z.output<typeof SealedOrder>

/** Columns of a work order `w` without its text. */
export const stateColumns = `w.id, w.work_type, w.status, w.claimed_by, w.claimed_at, w.claim_timeout_seconds, w.max_retries, w.retry_count,
  w.backoff_seconds, w.next_retry_after, w.last_error, w.last_error_at, w.created_at, w.updated_at, w.attempt`
const source = `work_orders w join work_order_contents t on t.id = w.id`

export interface NewOrderRow {
  readonly id: string
  readonly work_type: string
  readonly match: string
  readonly max_retries: number
  readonly backoff_seconds: number
  readonly claim_timeout_seconds: number
}
export const insert = one(
  'work_orders.insert',
  WorkOrder.omit({ yaml_content: true }),
  (p: Slots<NewOrderRow>) => `
  insert into work_orders as w (id, work_type, match, max_retries, backoff_seconds, claim_timeout_seconds)
  values (${p.id}::uuid, ${p.work_type}, ${p.match}, ${p.max_retries}::int, ${p.backoff_seconds}::int, ${p.claim_timeout_seconds}::int)
  returning ${stateColumns}`,
)

export const addTargets = count(
  'work_orders.addTargets',
  (p: Slots<{ id: string; agent_ids: readonly string[] }>) => `
  insert into work_order_targets (work_order_id, agent_id) select ${p.id}::uuid, agent_id from unnest(${p.agent_ids}::uuid[]) as t (agent_id)`,
)
export const addLabels = count(
  'work_orders.addLabels',
  (p: Slots<{ id: string; labels: readonly string[] }>) => `
  insert into work_order_labels (work_order_id, label) select ${p.id}::uuid, label from unnest(${p.labels}::text[]) as t (label)`,
)
export const addAnnotations = count(
  'work_orders.addAnnotations',
  (p: Slots<{ id: string; keys: readonly string[]; values: readonly string[] }>) => `
  insert into work_order_annotations (work_order_id, key, value)
  select ${p.id}::uuid, key, value from unnest(${p.keys}::text[], ${p.values}::text[]) as t (key, value)`,
)

export const get = maybe(
  'work_orders.get',
  SealedOrder,
  (p: Slots<{ id: string }>) => `select ${stateColumns}, t.yaml_sealed from ${source} where w.id = ${p.id}::uuid`,
)

/** Rows in no particular order. */
export const among = rows(
  'work_orders.among',
  SealedOrder,
  (p: Slots<{ ids: string[] }>) => `select ${stateColumns}, t.yaml_sealed from ${source} where w.id = any(${p.ids}::uuid[])`,
)

/** Position and size of a row; the texts are read by id once it is clear how many fit into a page. */
const Place = z.object({ id: z.string(), created_at: z.string(), bytes: z.int() })

export const list = rows(
  'work_orders.list',
  Place,
  (p: Slots<TimeKey & { status: string | null; work_type: string | null; limit: number }>) => `
  select w.id, w.created_at, t.yaml_bytes as bytes from ${source}
  where (w.created_at, w.id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
    and (${p.status}::text is null or w.status = ${p.status}) and (${p.work_type}::text is null or w.work_type = ${p.work_type})
  order by w.created_at desc, w.id desc limit ${p.limit}::int`,
)

/** Orders that an agent may claim, oldest first. The size is a lookup per row of the page: for a join PostgreSQL may read all texts. */
export const listPending = rows(
  'work_orders.listPending',
  Place,
  (p: Slots<TimeKey & { agent_id: string; work_type: string | null; limit: number }>) => `
  select o.id, o.created_at, (select t.yaml_bytes from work_order_contents t where t.id = o.id) as bytes
  from (select e.id, e.created_at from (${eligibleOrders(`${p.agent_id}::uuid`, {
    condition: `(c.created_at, c.work_order_id) > (${p.after_at}::timestamptz, ${p.after_id}::uuid)
        and (${p.work_type}::text is null or w.work_type = ${p.work_type})`,
    limit: `${p.limit}::int`,
  })}) e order by e.created_at, e.id limit ${p.limit}::int) o
  order by o.created_at, o.id`,
)

/** Deletes the order and its text; 0 if it is not open. */
export const remove = count(
  'work_orders.remove',
  (p: Slots<{ id: string }>) => `
  with removed as (delete from work_orders where id = ${p.id}::uuid and status in (${acceptingStates('cancel')}) returning id)
  delete from work_order_contents where id in (select id from removed)`,
)

export const counts = one(
  'work_orders.counts',
  z.object({ pending: z.int(), claimed: z.int(), retry_pending: z.int() }),
  () => `
  select (select count(*) from work_orders where status = 'PENDING') as pending,
    (select count(*) from work_orders where status = 'CLAIMED') as claimed,
    (select count(*) from work_orders where status = 'RETRY_PENDING') as retry_pending`,
)
