// Holds of stacks. The bound itself is in the row of the stack, where every reader of the wanted object finds it; this table says why it
// exists and who set it.
import { maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Row = z.object({
  stack_id: z.string(),
  sequence_id: z.int(),
  reason: z.string(),
  by_kind: z.string(),
  by_id: z.string().nullable(),
  created_at: z.string(),
})
export type HoldRow = z.output<typeof Row>
const columns = `stack_id, sequence_id, reason, by_kind, by_id, created_at`

/** Call it under the lock of the stack. */
export const get = maybe(
  'holds.get',
  Row,
  (p: Slots<{ stack_id: string }>) => `select ${columns} from holds where stack_id = ${p.stack_id}::uuid`,
)

export const put = one(
  'holds.put',
  Row,
  (p: Slots<{ stack_id: string; sequence_id: number; reason: string; by_kind: string; by_id: string | null }>) => `
  insert into holds (stack_id, sequence_id, reason, by_kind, by_id)
  values (${p.stack_id}::uuid, ${p.sequence_id}::bigint, ${p.reason}::text, ${p.by_kind}::text, ${p.by_id}::uuid)
  on conflict (stack_id) do update set sequence_id = excluded.sequence_id, reason = excluded.reason, by_kind = excluded.by_kind,
    by_id = excluded.by_id, created_at = now()
  returning ${columns}`,
)

export const remove = maybe(
  'holds.remove',
  z.object({ sequence_id: z.int(), at: z.string() }),
  (p: Slots<{ stack_id: string }>) => `delete from holds where stack_id = ${p.stack_id}::uuid returning sequence_id, now() as at`,
)

/** Of deleted stacks; returns the removed holds. */
export const removeOfStacks = rows(
  'holds.removeOfStacks',
  Row,
  (p: Slots<{ stack_ids: string[] }>) => `delete from holds where stack_id = any(${p.stack_ids}::uuid[]) returning ${columns}`,
)

const Shown = Row.extend({ by_name: z.string().nullable(), waiting: z.array(z.int()) })
/** With the name of who set it and the newest numbers that wait behind it. */
export const read = maybe(
  'holds.read',
  Shown,
  (p: Slots<{ stack_id: string; limit: number }>) => `
  select ${columns.replaceAll(/\w+/g, (name) => `h.${name}`)}, coalesce(a.name, g.name) as by_name,
    (select coalesce(json_agg(w.sequence_id), '[]') from (
       select o.sequence_id from deployment_objects o
       where o.stack_id = h.stack_id and o.deleted_at is null and o.sequence_id > h.sequence_id order by o.sequence_id desc limit ${p.limit}::int) w) as waiting
  from holds h left join admin_role a on h.by_kind = 'admin' and a.id = h.by_id
  left join generators g on h.by_kind = 'generator' and g.id = h.by_id
  where h.stack_id = ${p.stack_id}::uuid`,
)
