// Joins a stack to a row that references it, always by primary key. For an agent with 200 of 10,000 stacks the planner would prefer to
// scan all stacks, and the cost would grow with the fleet.

/** Joined as `s`. `limit 1` keeps the planner from flattening it into a join of whole tables. */
export const joinStack = (id: string, which: 'and deleted_at is null' | '' = ''): string =>
  `cross join lateral (select id, name, last_sequence, sequence_xid, drift, deleted_at, head_object_id, held_object_id, held_sequence from stacks where id = ${id} ${which} limit 1) s`
