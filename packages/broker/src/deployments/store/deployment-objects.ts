// Deployment objects, which never change. The manifest is sealed; callers open it with the row's own id.
import { count, lookUp, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

/** Id of the wanted object of a row of stacks: the held object, otherwise the head. */
export const wantedObjectId = (stack: string): string => `coalesce(${stack}.held_object_id, ${stack}.head_object_id)`

/** Subquery for a lateral join: the wanted object of stack `s`, found by key. If it was deleted, the newest live object within the hold. */
export const selectWanted = (columns: string): string => `(
    select ${columns} from (
      select ${columns} from deployment_objects where id = ${wantedObjectId('s')} and deleted_at is null
      union all
      (select ${columns} from deployment_objects where stack_id = s.id and deleted_at is null
         and sequence_id <= coalesce(s.held_sequence, 9223372036854775807) order by sequence_id desc limit 1)
    ) as live limit 1)`

const Row = z.object({
  id: z.string(),
  stack_id: z.string(),
  sequence_id: z.int(),
  yaml_sealed: z.instanceof(Buffer),
  yaml_checksum: z.string(),
  is_deletion_marker: z.boolean(),
  submitted_at: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
  deleted_at: z.string().nullable(),
  rollback_of: z.string().nullable(),
})
export type DeploymentObjectRow = z.output<typeof Row>
const columns = `id, stack_id, sequence_id, yaml_sealed, yaml_checksum, is_deletion_marker, submitted_at, created_at, updated_at, deleted_at, rollback_of`

export interface NewRow {
  readonly id: string
  readonly stack_id: string
  readonly sequence_id: number
  readonly yaml_sealed: Buffer
  readonly yaml_bytes: number
  readonly yaml_checksum: string
  readonly is_deletion_marker: boolean
  readonly rollback_of: string | null
  readonly created_by_kind: string
  readonly created_by_id: string | null
}
const Inserted = Row.omit({ yaml_sealed: true })
export type InsertedObject = z.output<typeof Inserted>
/** Does not return the manifest: the caller has it. */
export const insert = one(
  'deployment_objects.insert',
  Inserted,
  (p: Slots<NewRow>) => `
  insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, is_deletion_marker, rollback_of, created_by_kind, created_by_id)
  values (${p.id}, ${p.stack_id}, ${p.sequence_id}, ${p.yaml_sealed}, ${p.yaml_bytes}, ${p.yaml_checksum}, ${p.is_deletion_marker}, ${p.rollback_of}::uuid, ${p.created_by_kind}, ${p.created_by_id})
  returning ${columns.replace('yaml_sealed, ', '')}`,
)

export interface NewMarkers {
  readonly ids: string[]
  readonly stack_ids: string[]
  readonly sequence_ids: number[]
  readonly sealed: Buffer[]
  readonly yaml_checksum: string
  readonly created_by_kind: string
  readonly created_by_id: string | null
}
/** Deletion markers of many stacks at once. Their empty manifests are sealed too, each for its own row. */
export const insertMarkers = count(
  'deployment_objects.insertMarkers',
  (p: Slots<NewMarkers>) => `
  insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, is_deletion_marker, created_by_kind, created_by_id)
  select m.id, m.stack_id, m.sequence_id, m.sealed, 0, ${p.yaml_checksum}, true, ${p.created_by_kind}, ${p.created_by_id}::uuid
  from unnest(${p.ids}::uuid[], ${p.stack_ids}::uuid[], ${p.sequence_ids}::bigint[], ${p.sealed}::bytea[]) as m (id, stack_id, sequence_id, sealed)`,
)

export const get = maybe(
  'deployment_objects.get',
  Row,
  (p: Slots<{ id: string; with_deleted?: boolean }>) => `
  select ${columns} from deployment_objects where id = ${p.id}::uuid and (deleted_at is null or ${p.with_deleted}::boolean)`,
)

/** Without manifests, which are read by id after the page is cut. */
export const list = rows(
  'deployment_objects.list',
  Row.omit({ yaml_sealed: true }).extend({ yaml_bytes: z.int() }),
  (p: Slots<{ stack_id: string; after_sequence: number; with_deleted: boolean; limit: number }>) => `
  select ${columns.replace('yaml_sealed', 'yaml_bytes')} from deployment_objects
  where stack_id = ${p.stack_id}::uuid and sequence_id < ${p.after_sequence}::bigint and (deleted_at is null or ${p.with_deleted}::boolean)
  order by sequence_id desc limit ${p.limit}::int`,
)

export const markDeletedInStacks = count(
  'deployment_objects.markDeletedInStacks',
  (p: Slots<{ stack_ids: string[] }>) => `
  update deployment_objects set deleted_at = now(), updated_at = now() where stack_id = any(${p.stack_ids}::uuid[]) and deleted_at is null`,
)

/** A live deployment object of one stack, by its id or by its sequence number. */
export const findInStack = maybe(
  'deployment_objects.findInStack',
  Row,
  (p: Slots<{ stack_id: string; id: string | null; sequence_id: number | null }>) => `
  select ${columns} from deployment_objects
  where stack_id = ${p.stack_id}::uuid and deleted_at is null
    and case when ${p.id}::uuid is null then sequence_id = ${p.sequence_id}::bigint else id = ${p.id}::uuid end`,
)

/** The wanted object: the held one, otherwise the live one with the highest sequence number. */
export const readWanted = maybe(
  'deployment_objects.readWanted',
  Row,
  (p: Slots<{ stack_id: string }>) => `
  select ${columns.replaceAll(/\w+/g, (name) => `o.${name}`)} from stacks s cross join lateral ${selectWanted(columns)} o where s.id = ${p.stack_id}::uuid`,
)

const Numbered = z.object({ id: z.string(), sequence_id: z.int() })
/** The wanted object without its manifest. */
export const readWantedNumber = maybe(
  'deployment_objects.readWantedNumber',
  Numbered,
  (p: Slots<{ stack_id: string }>) => `
  select o.id, o.sequence_id from stacks s cross join lateral ${selectWanted('id, sequence_id')} o where s.id = ${p.stack_id}::uuid`,
)

/** A live deployment object of a stack by its sequence number, without its manifest. */
export const findNumbered = maybe(
  'deployment_objects.findNumbered',
  Numbered,
  (p: Slots<{ stack_id: string; sequence_id: number }>) => `
  select id, sequence_id from deployment_objects where stack_id = ${p.stack_id}::uuid and sequence_id = ${p.sequence_id}::bigint and deleted_at is null`,
)

/** Sequence number of the newest object. Call it under the lock of the stack, before an insert. */
export const readHeadSequence = one(
  'deployment_objects.readHeadSequence',
  z.object({ sequence_id: z.int().nullable() }),
  (p: Slots<{ stack_id: string }>) => `
  select max(sequence_id) as sequence_id from deployment_objects where stack_id = ${p.stack_id}::uuid and deleted_at is null`,
)

const Owner = z.object({ stack_id: z.string(), generator_id: z.string(), is_deleted: z.boolean() })
export const findOwner = lookUp(
  'deployment_objects.findOwner',
  Owner,
  (p: Slots<{ id: string }>) => `
  select o.stack_id, s.generator_id, o.deleted_at is not null as is_deleted from deployment_objects o join stacks s on s.id = o.stack_id where o.id = ${p.id}::uuid`,
)

export const listSequences = rows(
  'deployment_objects.listSequences',
  z.object({ id: z.string(), sequence_id: z.int() }),
  (p: Slots<{ ids: string[] }>) => `select id, sequence_id from deployment_objects where id = any(${p.ids}::uuid[])`,
)

/** Stack of each object, deleted ones included: an agent may report on an object after its deletion. */
const OfStack = z.object({ id: z.string(), stack_id: z.string(), is_deletion_marker: z.boolean() })
export type OfStack = z.infer<typeof OfStack>
export const listStackIds = rows(
  'deployment_objects.listStackIds',
  OfStack,
  (p: Slots<{ ids: string[] }>) => `select id, stack_id, is_deletion_marker from deployment_objects where id = any(${p.ids}::uuid[])`,
)
