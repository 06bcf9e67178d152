// Templates: one row per version. The source is sealed; callers open it with the row's own id.
import { count, lookUp, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Shown = z.object({
  id: z.string(),
  generator_id: z.string().nullable(),
  name: z.string(),
  description: z.string().nullable(),
  version: z.int(),
  template_bytes: z.int(),
  parameters_schema: z.string(),
  checksum: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
  deleted_at: z.string().nullable(),
})
export type TemplateRow = z.output<typeof Shown>
const columns = `id, generator_id, name, description, version, template_bytes, parameters_schema, checksum, created_at, updated_at, deleted_at`

/** Owner as in the order of lists: system templates first. */
export const systemOwner = '00000000-0000-0000-0000-000000000000'
const owner = `coalesce(generator_id, '${systemOwner}'::uuid)`

/** Serializes new versions of one name until the transaction ends. */
export const lockName = count(
  'stack_templates.lockName',
  (p: Slots<{ owner_id: string; name: string }>) => `
  select pg_advisory_xact_lock(hashtextextended('brokkr:template:' || current_schema() || ':' || ${p.owner_id}::text || ':' || ${p.name}::text, 0))`,
)

export interface NewTemplate {
  readonly id: string
  readonly generator_id: string | null
  readonly name: string
  readonly description: string | null
  readonly template_sealed: Buffer
  readonly template_bytes: number
  readonly parameters_schema: string
  readonly checksum: string
}
/** Under the lock of its name. Versions of deleted templates are not used again, because deployment objects name them. */
export const insertNextVersion = one(
  'stack_templates.insertNextVersion',
  Shown,
  (p: Slots<NewTemplate & { owner_id: string }>) => `
  insert into stack_templates (id, generator_id, name, description, version, template_sealed, template_bytes, parameters_schema, checksum)
  select ${p.id}::uuid, ${p.generator_id}::uuid, ${p.name}::text, ${p.description}::text, 1 + coalesce(max(t.version), 0), ${p.template_sealed}::bytea,
    ${p.template_bytes}::int, ${p.parameters_schema}::text, ${p.checksum}::text
  from stack_templates t where ${owner.replace('generator_id', 't.generator_id')} = ${p.owner_id}::uuid and t.name = ${p.name}::text
  returning ${columns}`,
)

/** Deleted versions too, without their source. */
export const get = lookUp(
  'stack_templates.get',
  Shown,
  (p: Slots<{ id: string }>) => `select ${columns} from stack_templates where id = ${p.id}::uuid`,
)

export const ownerOf = maybe(
  'stack_templates.ownerOf',
  z.object({ generator_id: z.string().nullable() }),
  (p: Slots<{ id: string }>) => `select generator_id from stack_templates where id = ${p.id}::uuid and deleted_at is null`,
)

/** Locks a live version until the transaction ends. */
export const lock = maybe(
  'stack_templates.lock',
  Shown,
  (p: Slots<{ id: string }>) => `
  select ${columns} from stack_templates where id = ${p.id}::uuid and deleted_at is null for no key update`,
)

export const markDeleted = count(
  'stack_templates.markDeleted',
  (p: Slots<{ id: string }>) => `
  update stack_templates set deleted_at = now(), updated_at = now() where id = ${p.id}::uuid and deleted_at is null`,
)

export const markDeletedOfGenerator = count(
  'stack_templates.markDeletedOfGenerator',
  (p: Slots<{ owner_id: string }>) => `
  update stack_templates set deleted_at = now(), updated_at = now() where ${owner} = ${p.owner_id}::uuid and deleted_at is null`,
)

interface ListSlots {
  readonly name: string | null
  readonly after_owner: string
  readonly after_name: string
  readonly after_version: number
  readonly limit: number
}
const buildPage = (p: Slots<ListSlots>): string => `
  (${p.name}::text is null or name = ${p.name})
    and (${owner}, name, version) > (${p.after_owner}::uuid, ${p.after_name}::text, ${p.after_version}::int)
  order by ${owner}, name, version limit ${p.limit}::int`

/** Templates of all owners. */
export const list = rows(
  'stack_templates.list',
  Shown,
  (p: Slots<ListSlots & { with_deleted: boolean }>) => `
  select ${columns} from stack_templates where (deleted_at is null or ${p.with_deleted}::boolean) and ${buildPage(p)}`,
)

/** System templates and those of one generator, which may also see its deleted ones. */
export const listVisible = rows(
  'stack_templates.listVisible',
  Shown,
  (p: Slots<ListSlots & { with_deleted: boolean; owner_id: string }>) => `
  select ${columns} from stack_templates
  where ${owner} in ('${systemOwner}'::uuid, ${p.owner_id}::uuid)
    and (deleted_at is null or (${p.with_deleted}::boolean and generator_id = ${p.owner_id}::uuid)) and ${buildPage(p)}`,
)

/** Sources of a page of templates. */
export const listSealed = rows(
  'stack_templates.listSealed',
  z.object({ id: z.string(), template_sealed: z.instanceof(Buffer) }),
  (p: Slots<{ ids: string[] }>) => `select id, template_sealed from stack_templates where id = any(${p.ids}::uuid[])`,
)

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })
export const sealedSample = rows(
  'stack_templates.sealedSample',
  Sealed,
  () => `select id, template_sealed as sealed from stack_templates order by id desc limit 1`,
)
/** At most 100 rows and 8 MiB, or a single larger row. */
export const sealedPage = rows(
  'stack_templates.sealedPage',
  Sealed,
  (p: Slots<{ after: string; since: string | null }>) => `
  select id, template_sealed as sealed from (
    select id, template_sealed, sum(template_bytes) over (order by id) - template_bytes as bytes_before from (
      select id, template_sealed, template_bytes from stack_templates
      where id > ${p.after}::uuid and (${p.since}::timestamptz is null or created_at >= ${p.since}) order by id limit 100) page) measured
  where bytes_before < 8388608 order by id`,
)
export const putSealed = count(
  'stack_templates.putSealed',
  (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update stack_templates set template_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and template_sealed = ${p.was}::bytea`,
)

// Encryption context of a template's source, which binds the ciphertext to its row.
export const toTemplateContext = (id: string) => ({ table: 'stack_templates', column: 'template_sealed', id })
