// A stack beside the row that names it, found by its key whatever the planner thinks of reading all stacks once: for an agent with two
// hundred of ten thousand it thinks much of that, and the answer then costs more the larger the fleet is.

/** Joined as `s`; `limit 1` is what keeps the planner from turning it into a join of whole tables. */
export const stackOf = (id: string, which: 'and deleted_at is null' | '' = ''): string =>
  `cross join lateral (select id, name, last_sequence, sequence_xid, drift, deleted_at, head_object_id from stacks where id = ${id} ${which} limit 1) s`
