// Orders of flows. The state of an order is that of its work order, open or finished.
import { FlowOrder } from '@brokkr/contract/flows/flow.ts'
import { count, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

export const insert = count(
  'flow_orders.insert',
  (p: Slots<{ work_order_id: string; flow_id: string; action: string }>) => `
  insert into flow_orders (work_order_id, flow_id, action) values (${p.work_order_id}::uuid, ${p.flow_id}::uuid, ${p.action})`,
)

export const list = rows(
  'flow_orders.list',
  FlowOrder,
  (p: Slots<{ flow_id: string; limit: number }>) => `
  select o.work_order_id as id, o.flow_id, o.action,
    coalesce(w.status, case when l.success then 'COMPLETED' else 'FAILED' end) as status, coalesce(w.last_error, l.result_message) as message,
    o.created_at, l.completed_at as finished_at
  from flow_orders o left join work_orders w on w.id = o.work_order_id left join work_order_log l on l.id = o.work_order_id
  where o.flow_id = ${p.flow_id}::uuid order by o.created_at desc, o.work_order_id desc limit ${p.limit}::int`,
)

export const countOpen = one(
  'flow_orders.countOpen',
  z.object({ open: z.int() }),
  (p: Slots<{ flow_id: string }>) => `
  select count(*) as open from flow_orders o join work_orders w on w.id = o.work_order_id where o.flow_id = ${p.flow_id}::uuid`,
)
