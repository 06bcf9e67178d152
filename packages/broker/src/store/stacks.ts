// Stacks. Taking a number locks the row, so number order is commit order; sequence_xid proves to the check triggers that
// the writing transaction took one, and tells agents that come back whether their cursor saw it.

import { HealthStatus } from '@brokkr/contract/health.ts'
import { Stack } from '@brokkr/contract/stack.ts'
import { z } from 'zod'
import { carries, type MarkFilter } from './carries.ts'
import { count, lookUp, maybe, type NameKey, one, rows, type Slots, touched } from './sql.ts'
import { sums, worstHealth } from './stack-summary.ts'

const columns = `id, name, description, generator_id, created_at, updated_at, deleted_at, drift`
const qualified = (name: string) => columns.replaceAll(/\w+/g, (column) => `${name}.${column}`)
const takeNumber = `last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id()`

export const insert = one(
  'stacks.insert',
  Stack,
  (p: Slots<{ id: string; name: string; description: string | null; generator_id: string; drift: string }>) => `
  insert into stacks (id, name, description, generator_id, drift) values (${p.id}, ${p.name}, ${p.description}, ${p.generator_id}, ${p.drift}) returning ${columns}`,
)

export const get = lookUp(
  'stacks.get',
  Stack,
  (p: Slots<{ id: string; with_deleted?: boolean }>) => `
  select ${columns} from stacks where id = ${p.id}::uuid and (deleted_at is null or ${p.with_deleted}::boolean)`,
)

export interface StackFilter extends MarkFilter {
  readonly generator_id: string | null
  readonly name: string | null
}
type Lead = (p: Slots<StackFilter>) => string
type Listing = StackFilter & NameKey & { limit: number }
/** Four ways in, so that each is led by its own index. */
const live: Lead = () => 's.deleted_at is null'
const named: Lead = (p) => `s.deleted_at is null and s.name = ${p.name}::text`
const owned: Lead = (p) => `s.deleted_at is null and s.generator_id = ${p.generator_id}::uuid`
const withDeleted: Lead = () => 'true'

const filtered = (p: Slots<Listing>, led: Lead): string => `
  ${led(p)} and (s.name, s.id) > (${p.after_name}::text, ${p.after_id}::uuid)
    and (${p.generator_id}::uuid is null or s.generator_id = ${p.generator_id}) and (${p.name}::text is null or s.name = ${p.name})
    and ${carries(p, { labels: 'stack_labels', annotations: 'stack_annotations', owner: 'stack_id', is: 's.id' })}`

const listing = (name: string, led: Lead) =>
  rows(
    `stacks.${name}`,
    Stack,
    (p: Slots<Listing>) => `
  select ${columns} from stacks s where ${filtered(p, led)} order by s.name, s.id limit ${p.limit}::int`,
  )
export const list = listing('list', live)
export const listNamed = listing('listNamed', named)
export const listOwned = listing('listOwned', owned)
export const listWithDeleted = listing('listWithDeleted', withDeleted)

const Counted = Stack.extend({
  desired_sequence_id: z.int().nullable(),
  agents_total: z.int(),
  agents_current: z.int(),
  agents_failed: z.int(),
  health: HealthStatus,
  drifted: z.int(),
  held: z.boolean(),
  oldest_seen_at: z.string().nullable(),
})
export type CountedStack = z.output<typeof Counted>
export interface CountFilter {
  readonly health: string | null
  readonly drifted: boolean | null
  readonly held: boolean | null
}
/** The same with the kept counts of each stack: at most sixteen rows more per stack, and no look at any pair. */
const countedListing = (name: string, led: Lead) =>
  rows(
    `stacks.${name}`,
    Counted,
    (p: Slots<Listing & CountFilter>) => `
  select ${qualified('s')}, o.sequence_id as desired_sequence_id, c.total as agents_total, c.current as agents_current, c.failed as agents_failed,
    h.health, c.drifted, c.held > 0 as held, c.oldest_seen_at
  from stacks s
  cross join lateral (select ${sums('s.head_object_id')} from stack_summary m where m.stack_id = s.id) c
  cross join lateral (select ${worstHealth('c')} as health) h
  left join deployment_objects o on o.id = s.head_object_id
  where ${filtered(p, led)}
    and (${p.health}::text is null or h.health = ${p.health}) and (${p.drifted}::boolean is null or (c.drifted > 0) = ${p.drifted})
    and (${p.held}::boolean is null or (c.held > 0) = ${p.held})
  order by s.name, s.id limit ${p.limit}::int`,
  )
export const countedList = countedListing('countedList', live)
export const countedListNamed = countedListing('countedListNamed', named)
export const countedListOwned = countedListing('countedListOwned', owned)
export const countedListWithDeleted = countedListing('countedListWithDeleted', withDeleted)

/** Before the pairs of a stack change: its head stays where it is until the transaction ends. */
export const lockHead = count('stacks.lockHead', (p: Slots<{ id: string }>) => `select id from stacks where id = ${p.id}::uuid for share`)

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

/** The next number of a live stack, for the object that becomes its head; null: no such stack. */
export const takeHead = maybe(
  'stacks.takeHead',
  z.object({ sequence_id: z.int() }),
  (p: Slots<{ stack_id: string; object_id: string }>) => `
  update stacks set ${takeNumber}, head_object_id = ${p.object_id}::uuid, updated_at = now()
  where id = ${p.stack_id}::uuid and deleted_at is null returning last_sequence as sequence_id`,
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
  z.object({ stack_id: z.string(), sequence_id: z.int(), deleted_at: z.string() }),
  (p: Slots<{ stack_ids: string[] }>) => `
  update stacks set ${takeNumber}, deleted_at = now(), ${touched} where id = any(${p.stack_ids}::uuid[]) and deleted_at is null
  returning id as stack_id, last_sequence as sequence_id, deleted_at`,
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

/** What a watch of a generator brings along. */
export const idsOfGenerators = rows(
  'stacks.idsOfGenerators',
  z.object({ id: z.string() }),
  (p: Slots<{ generator_ids: string[] }>) => `
  select id from stacks where generator_id = any(${p.generator_ids}::uuid[]) and deleted_at is null`,
)
