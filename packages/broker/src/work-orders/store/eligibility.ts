// SQL conditions that an agent may claim a work order. With `any` one equal agent id, label or annotation is enough; with `all` the agent is
// among the named ones, if any are named, and has all labels and annotations. `agent` is an SQL expression for the agent's id, `w` the row of
// work_orders.

/** A scalar subquery is an index lookup per order; PostgreSQL may hash the whole table for `exists`. */
const hasTarget = (condition: string): string =>
  `coalesce((select true from work_order_targets x where x.work_order_id = w.id${condition} limit 1), false)`
const namesAgent = (agent: string): string => hasTarget(` and x.agent_id = ${agent}`)

/** For an order that matches at least one criterion. */
const matchesAll = (agent: string): string => `(w.match = 'any' or (
        (not ${hasTarget('')} or ${namesAgent(agent)})
        and not exists (select from work_order_labels x where x.work_order_id = w.id
          and not exists (select from agent_labels m where m.agent_id = ${agent} and m.label = x.label))
        and not exists (select from work_order_annotations x where x.work_order_id = w.id
          and not exists (select from agent_annotations m where m.agent_id = ${agent} and m.key = x.key and m.value = x.value))))`

export const isEligible = (agent: string): string => `(
      ${namesAgent(agent)}
      or exists (select from work_order_labels x join agent_labels m on m.agent_id = ${agent} and m.label = x.label where x.work_order_id = w.id)
      or exists (select from work_order_annotations x join agent_annotations m on m.agent_id = ${agent} and m.key = x.key and m.value = x.value
                 where x.work_order_id = w.id))
    and ${matchesAll(agent)}`

/** Subquery with id and creation of pending orders that the agent may claim: the oldest `limit` of each criterion. Each branch follows an index by
 *  criterion and age, so the orders of other agents cost nothing. `condition` may name the criterion row `c` and the order `w`. */
export function eligibleOrders(agent: string, { condition = 'true', limit }: { condition?: string; limit: string }): string {
  const oldest = (side: string, criterion: string) => `
      select c.work_order_id as id, c.created_at from ${side} c join work_orders w on w.id = c.work_order_id and w.status = 'PENDING'
      where ${criterion} and ${condition} and ${matchesAll(agent)}
      order by c.created_at, c.work_order_id limit ${limit}`
  return `
    (${oldest('work_order_targets', `c.agent_id = ${agent}`)})
    union (select o.id, o.created_at from agent_labels l cross join lateral (${oldest('work_order_labels', 'c.label = l.label')}) o
           where l.agent_id = ${agent})
    union (select o.id, o.created_at from agent_annotations n
           cross join lateral (${oldest('work_order_annotations', 'c.key = n.key and c.value = n.value')}) o where n.agent_id = ${agent})`
}
