// Stacks. Taking a sequence number locks the row, so sequence order is commit order. sequence_xid proves to the check triggers that the
// writing transaction took a number, and shows for a resuming agent whether its cursor includes the change.

import { HealthStatus } from '@brokkr/contract/health/deployment-health.ts'
import { Stack } from '@brokkr/contract/stacks/stack.ts'
import { count, lookUp, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { selectWanted, wantedObjectId } from '../../deployments/store/deployment-objects.ts'
import { type NameKey, touched } from '../../schema/sql-fragments.ts'
import { type LabelFilter, matchesLabels } from '../../targeting/store/labels.ts'
import { sums, worstHealth } from './stack-summary.ts'

const columns = `id, name, description, generator_id, created_at, updated_at, deleted_at, drift`
const qualifyColumns = (name: string) => columns.replaceAll(/\w+/g, (column) => `${name}.${column}`)
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

export interface StackFilter extends LabelFilter {
  readonly generator_id: string | null
  readonly name: string | null
  /** Part of the name, in any case. */
  readonly search?: string | null
}
type Condition = (p: Slots<StackFilter>) => string
type Listing = StackFilter & NameKey & { limit: number }
/** One statement per kind of filter, so that each uses its own index. */
const live: Condition = () => 's.deleted_at is null'
const byName: Condition = (p) => `s.deleted_at is null and s.name = ${p.name}::text`
const byGenerator: Condition = (p) => `s.deleted_at is null and s.generator_id = ${p.generator_id}::uuid`
const withDeleted: Condition = () => 'true'

const buildFilter = (p: Slots<Listing>, condition: Condition): string => `
  ${condition(p)} and (s.name, s.id) > (${p.after_name}::text, ${p.after_id}::uuid)
    and (${p.generator_id}::uuid is null or s.generator_id = ${p.generator_id}) and (${p.name}::text is null or s.name = ${p.name})
    and (${p.search}::text is null or strpos(lower(s.name), lower(${p.search})) > 0)
    and ${matchesLabels(p, { labels: 'stack_labels', annotations: 'stack_annotations', owner: 'stack_id', is: 's.id' })}`

const defineList = (name: string, condition: Condition) =>
  rows(
    `stacks.${name}`,
    Stack,
    (p: Slots<Listing>) => `
  select ${columns} from stacks s where ${buildFilter(p, condition)} order by s.name, s.id limit ${p.limit}::int`,
  )
export const list = defineList('list', live)
export const listNamed = defineList('listNamed', byName)
export const listOwned = defineList('listOwned', byGenerator)
export const listWithDeleted = defineList('listWithDeleted', withDeleted)

const CountedRow = Stack.extend({
  desired_sequence_id: z.int().nullable(),
  agents_total: z.int(),
  agents_current: z.int(),
  agents_failed: z.int(),
  health: HealthStatus,
  drifted: z.int(),
  held: z.boolean(),
  oldest_seen_at: z.string().nullable(),
})
export type CountedStack = z.output<typeof CountedRow>
export interface CountFilter {
  readonly health: string | null
  readonly drifted: boolean | null
  readonly held: boolean | null
}
/** The same with the stored counts of each stack: at most sixteen more rows per stack, and no target is read. */
const defineCountedList = (name: string, condition: Condition) =>
  rows(
    `stacks.${name}`,
    CountedRow,
    (p: Slots<Listing & CountFilter>) => `
  select ${qualifyColumns('s')}, o.sequence_id as desired_sequence_id, c.total as agents_total, c.current as agents_current, c.failed as agents_failed,
    h.health, c.drifted, c.held > 0 or s.held_object_id is not null as held, c.oldest_seen_at
  from stacks s
  cross join lateral (select ${sums(wantedObjectId('s'))} from stack_summary m where m.stack_id = s.id) c
  cross join lateral (select ${worstHealth('c')} as health) h
  left join deployment_objects o on o.id = ${wantedObjectId('s')}
  where ${buildFilter(p, condition)}
    and (${p.health}::text is null or h.health = ${p.health}) and (${p.drifted}::boolean is null or (c.drifted > 0) = ${p.drifted})
    and (${p.held}::boolean is null or (c.held > 0 or s.held_object_id is not null) = ${p.held})
  order by s.name, s.id limit ${p.limit}::int`,
  )
export const countedList = defineCountedList('countedList', live)
export const countedListNamed = defineCountedList('countedListNamed', byName)
export const countedListOwned = defineCountedList('countedListOwned', byGenerator)
export const countedListWithDeleted = defineCountedList('countedListWithDeleted', withDeleted)

/** Locks the row until the transaction ends, so that it does not change between read and update. */
export const lock = maybe(
  'stacks.lock',
  Stack,
  (p: Slots<{ id: string }>) => `select ${columns} from stacks where id = ${p.id}::uuid and deleted_at is null for no key update`,
)

/** A changed name or drift is sent to agents and takes a sequence number; a changed description does not. */
export const update = one(
  'stacks.update',
  Stack,
  (p: Slots<{ id: string; name: string; description: string | null; drift: string; takes_number: boolean }>) => `
  update stacks set name = ${p.name}, description = ${p.description}, drift = ${p.drift}, ${touched},
    last_sequence = last_sequence + case when ${p.takes_number}::boolean then 1 else 0 end,
    sequence_xid = case when ${p.takes_number}::boolean then pg_current_xact_id() else sequence_xid end
  where id = ${p.id}::uuid returning ${columns}`,
)

/** Takes the next sequence number of a live stack for the object that becomes its head; null if no such stack exists. */
export const takeHead = maybe(
  'stacks.takeHead',
  z.object({ sequence_id: z.int() }),
  (p: Slots<{ stack_id: string; object_id: string }>) => `
  update stacks set ${takeNumber}, head_object_id = ${p.object_id}::uuid, updated_at = now()
  where id = ${p.stack_id}::uuid and deleted_at is null returning last_sequence as sequence_id`,
)

/** The same with a hold on that object. */
export const takeHeldHead = maybe(
  'stacks.takeHeldHead',
  z.object({ sequence_id: z.int() }),
  (p: Slots<{ stack_id: string; object_id: string }>) => `
  update stacks set ${takeNumber}, head_object_id = ${p.object_id}::uuid, held_object_id = ${p.object_id}::uuid, held_sequence = last_sequence + 1, updated_at = now()
  where id = ${p.stack_id}::uuid and deleted_at is null returning last_sequence as sequence_id`,
)

const Bounds = z.object({ head_object_id: z.string().nullable(), held_object_id: z.string().nullable(), held_sequence: z.int().nullable() })
/** Newest and held object of a live stack. Locks the row until the transaction ends. */
export const lockBounds = maybe(
  'stacks.lockBounds',
  Bounds,
  (p: Slots<{ id: string }>) => `
  select head_object_id, held_object_id, held_sequence from stacks where id = ${p.id}::uuid and deleted_at is null for no key update`,
)

/** Sets or, with nulls, removes the bound. A bound that changes the wanted object takes a number. */
export const setBound = count(
  'stacks.setBound',
  (p: Slots<{ id: string; object_id: string | null; sequence_id: number | null; takes_number: boolean }>) => `
  update stacks set held_object_id = ${p.object_id}::uuid, held_sequence = ${p.sequence_id}::bigint, ${touched},
    last_sequence = last_sequence + case when ${p.takes_number}::boolean then 1 else 0 end,
    sequence_xid = case when ${p.takes_number}::boolean then pg_current_xact_id() else sequence_xid end
  where id = ${p.id}::uuid`,
)

const Sequences = z.object({
  desired_sequence_id: z.int().nullable(),
  held_sequence_id: z.int().nullable(),
  newest_sequence_id: z.int().nullable(),
})
/** In one statement, so that the three numbers belong together. */
export const readSequences = maybe(
  'stacks.readSequences',
  Sequences,
  (p: Slots<{ id: string }>) => `
  select w.sequence_id as desired_sequence_id, s.held_sequence as held_sequence_id, n.sequence_id as newest_sequence_id
  from stacks s left join lateral ${selectWanted('sequence_id')} w on true left join deployment_objects n on n.id = s.head_object_id
  where s.id = ${p.id}::uuid`,
)

export const listLiveOfGenerator = rows(
  'stacks.listLiveOfGenerator',
  z.object({ id: z.string() }),
  (p: Slots<{ generator_id: string }>) => `
  select id from stacks where generator_id = ${p.generator_id}::uuid and deleted_at is null order by id`,
)

/** Marks live stacks deleted, makes the deletion markers their heads and returns the sequence numbers taken. FOR UPDATE, so that no target
 *  of them is created meanwhile. One update: a second update of the same row would check its foreign key and wait for a concurrently
 *  deleted generator. */
export const markDeleted = rows(
  'stacks.markDeleted',
  z.object({
    stack_id: z.string(),
    object_id: z.string(),
    sequence_id: z.int(),
    deleted_at: z.string(),
    wanted_object_id: z.string().nullable(),
  }),
  (p: Slots<{ stack_ids: string[]; object_ids: string[] }>) => `
  with live as materialized (select id, ${wantedObjectId('stacks')} as wanted_object_id from stacks where id = any(${p.stack_ids}::uuid[]) and deleted_at is null order by id for update)
  update stacks s set ${takeNumber}, deleted_at = now(), head_object_id = h.object_id, held_object_id = null, held_sequence = null, ${touched}
  from live join unnest(${p.stack_ids}::uuid[], ${p.object_ids}::uuid[]) as h (stack_id, object_id) on h.stack_id = live.id where s.id = live.id
  returning s.id as stack_id, s.head_object_id as object_id, s.last_sequence as sequence_id, s.deleted_at, live.wanted_object_id`,
)

/** Makes a deleted stack live again; null if it is not deleted. Without an object the deletion marker stays its head. */
export const restore = maybe(
  'stacks.restore',
  Stack.extend({ sequence_id: z.int() }),
  (p: Slots<{ id: string; object_id: string | null }>) => `
  update stacks set ${takeNumber}, deleted_at = null, head_object_id = coalesce(${p.object_id}::uuid, head_object_id), ${touched}
  where id = ${p.id}::uuid and deleted_at is not null returning ${columns}, last_sequence as sequence_id`,
)

const Owner = z.object({ generator_id: z.string(), is_deleted: z.boolean() })
export const findOwner = maybe(
  'stacks.findOwner',
  Owner,
  (p: Slots<{ id: string }>) => `select generator_id, deleted_at is not null as is_deleted from stacks where id = ${p.id}::uuid`,
)

/** All stacks of an agent without a limit, because agents treat a missing stack as a removal. */
export const listOfAgent = rows(
  'stacks.listOfAgent',
  Stack,
  (p: Slots<{ agent_id: string }>) => `
  select ${qualifyColumns('s')} from agent_targets t join stacks s on s.id = t.stack_id and s.deleted_at is null
  where t.agent_id = ${p.agent_id}::uuid order by s.id`,
)

/** Stacks that a watch of a generator includes. */
export const idsOfGenerators = rows(
  'stacks.idsOfGenerators',
  z.object({ id: z.string() }),
  (p: Slots<{ generator_ids: string[] }>) => `
  select id from stacks where generator_id = any(${p.generator_ids}::uuid[]) and deleted_at is null`,
)
