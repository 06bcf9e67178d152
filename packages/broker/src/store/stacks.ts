// Stacks. Taking a number locks the row, so number order is commit order; sequence_xid proves to the check triggers that
// the writing transaction took one.
import { Stack } from '@brokkr/contract/stack.ts'
import { z } from 'zod'
import { carries, type MarkFilter } from './carries.ts'
import { count, maybe, type NameKey, one, rows, type Slots, touched } from './sql.ts'

const columns = `id, name, description, generator_id, created_at, updated_at, deleted_at, drift`
const qualified = (name: string) => columns.replaceAll(/\w+/g, (column) => `${name}.${column}`)
const takeNumber = `last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id()`

export const insert = one(
  'stacks.insert',
  Stack,
  (p: Slots<{ id: string; name: string; description: string | null; generator_id: string; drift: string }>) => `
  insert into stacks (id, name, description, generator_id, drift) values (${p.id}, ${p.name}, ${p.description}, ${p.generator_id}, ${p.drift}) returning ${columns}`,
)

export const get = maybe(
  'stacks.get',
  Stack,
  (p: Slots<{ id: string; with_deleted?: boolean }>) => `
  select ${columns} from stacks where id = ${p.id}::uuid and (deleted_at is null or ${p.with_deleted}::boolean)`,
)

export interface StackFilter extends MarkFilter {
  readonly generator_id: string | null
  readonly name: string | null
}
/** Four ways in, so that each is led by its own index. */
const listing = (name: string, led: (p: Slots<StackFilter>) => string) =>
  rows(
    `stacks.${name}`,
    Stack,
    (p: Slots<StackFilter & NameKey & { limit: number }>) => `
  select ${columns} from stacks s
  where ${led(p)} and (name, id) > (${p.after_name}::text, ${p.after_id}::uuid)
    and (${p.generator_id}::uuid is null or generator_id = ${p.generator_id}) and (${p.name}::text is null or name = ${p.name})
    and ${carries(p, { labels: 'stack_labels', annotations: 'stack_annotations', owner: 'stack_id', is: 's.id' })}
  order by name, id limit ${p.limit}::int`,
  )
export const list = listing('list', () => 'deleted_at is null')
export const listNamed = listing('listNamed', (p) => `deleted_at is null and name = ${p.name}::text`)
export const listOwned = listing('listOwned', (p) => `deleted_at is null and generator_id = ${p.generator_id}::uuid`)
export const listWithDeleted = listing('listWithDeleted', () => 'true')

/** Held until the transaction ends, so that what was read is still true when it is changed. */
export const lock = maybe(
  'stacks.lock',
  Stack,
  (p: Slots<{ id: string }>) => `select ${columns} from stacks where id = ${p.id}::uuid and deleted_at is null for no key update`,
)

/** A changed name or drift reaches agents and takes a number; a changed description does neither. */
export const update = one(
  'stacks.update',
  Stack,
  (p: Slots<{ id: string; name: string; description: string | null; drift: string; takes_number: boolean }>) => `
  update stacks set name = ${p.name}, description = ${p.description}, drift = ${p.drift}, ${touched},
    last_sequence = last_sequence + case when ${p.takes_number}::boolean then 1 else 0 end,
    sequence_xid = case when ${p.takes_number}::boolean then pg_current_xact_id() else sequence_xid end
  where id = ${p.id}::uuid returning ${columns}`,
)

const Taken = z.object({ sequence_id: z.int(), head_sequence_id: z.int().nullable() })
/** The next number of a live stack, and the sequence of its head before it; null: no such stack. */
export const takeSequence = maybe(
  'stacks.takeSequence',
  Taken,
  (p: Slots<{ stack_id: string }>) => `
  with locked as (
    update stacks set ${takeNumber} where id = ${p.stack_id}::uuid and deleted_at is null returning id, last_sequence, head_object_id)
  select l.last_sequence as sequence_id, o.sequence_id as head_sequence_id from locked l left join deployment_objects o on o.id = l.head_object_id`,
)

export const setHead = count(
  'stacks.setHead',
  (p: Slots<{ stack_id: string; object_id: string }>) => `
  update stacks set head_object_id = ${p.object_id}::uuid, updated_at = now() where id = ${p.stack_id}::uuid`,
)

export const setHeads = count(
  'stacks.setHeads',
  (p: Slots<{ stack_ids: string[]; object_ids: string[] }>) => `
  update stacks s set head_object_id = h.object_id, updated_at = now()
  from unnest(${p.stack_ids}::uuid[], ${p.object_ids}::uuid[]) as h (stack_id, object_id) where s.id = h.stack_id`,
)

export const liveOf = rows(
  'stacks.liveOf',
  z.object({ id: z.string() }),
  (p: Slots<{ generator_id: string }>) => `
  select id from stacks where generator_id = ${p.generator_id}::uuid and deleted_at is null order by id`,
)

/** The numbers the deletions took, of those that were still live. */
export const markDeleted = rows(
  'stacks.markDeleted',
  z.object({ stack_id: z.string(), sequence_id: z.int() }),
  (p: Slots<{ stack_ids: string[] }>) => `
  update stacks set ${takeNumber}, deleted_at = now(), ${touched} where id = any(${p.stack_ids}::uuid[]) and deleted_at is null
  returning id as stack_id, last_sequence as sequence_id`,
)

const Owner = z.object({ generator_id: z.string(), is_deleted: z.boolean() })
export const ownerOf = maybe(
  'stacks.ownerOf',
  Owner,
  (p: Slots<{ id: string }>) => `select generator_id, deleted_at is not null as is_deleted from stacks where id = ${p.id}::uuid`,
)

/** Every stack an agent has, whole: a short list would read as a removal. */
export const ofAgent = rows(
  'stacks.ofAgent',
  Stack,
  (p: Slots<{ agent_id: string }>) => `
  select ${qualified('s')} from agent_targets t join stacks s on s.id = t.stack_id and s.deleted_at is null
  where t.agent_id = ${p.agent_id}::uuid order by s.id`,
)
