// Generators.
import { Generator } from '@brokkr/contract/generators/generator.ts'
import { count, lookUp, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { type NameKey, touched } from '../../schema/sql-fragments.ts'

const columns = `id, name, description, is_active, is_system, last_active_at, created_at, updated_at, deleted_at`

export const insert = one(
  'generators.insert',
  Generator,
  (
    p: Slots<{
      id: string
      name: string
      description: string | null
      pak_hash: string | null
      pak_short: string | null
      is_system: boolean
    }>,
  ) => `
  insert into generators (id, name, description, pak_hash, pak_short, is_system)
  values (${p.id}, ${p.name}, ${p.description}, ${p.pak_hash}, ${p.pak_short}, ${p.is_system}) returning ${columns}`,
)

export const get = lookUp(
  'generators.get',
  Generator,
  (p: Slots<{ id: string; with_deleted?: boolean }>) => `
  select ${columns} from generators where id = ${p.id}::uuid and (deleted_at is null or ${p.with_deleted}::boolean)`,
)

const defineList = (name: string, condition: string) =>
  rows(
    `generators.${name}`,
    Generator,
    (p: Slots<NameKey & { name: string | null; limit: number }>) => `
  select ${columns} from generators
  where ${condition} and not is_system and (name, id) > (${p.after_name}::text, ${p.after_id}::uuid) and (${p.name}::text is null or name = ${p.name})
  order by name, id limit ${p.limit}::int`,
  )
export const list = defineList('list', 'deleted_at is null')
export const listWithDeleted = defineList('listWithDeleted', 'true')

export const system = maybe(
  'generators.system',
  z.object({ id: z.string() }),
  () => `select id from generators where is_system and deleted_at is null`,
)

/** The live generators among `ids`, locked against deletion until the transaction ends. */
export const holdLive = rows(
  'generators.holdLive',
  z.object({ id: z.string() }),
  (p: Slots<{ ids: string[] }>) => `
  select id from generators where id = any(${p.ids}::uuid[]) and deleted_at is null order by id for key share`,
)

/** Before deletion: waits for transactions that locked it with `holdLive`. */
export const lockForDeletion = maybe(
  'generators.lockForDeletion',
  z.object({ is_system: z.boolean() }),
  (p: Slots<{ id: string }>) => `select is_system from generators where id = ${p.id}::uuid and deleted_at is null for update`,
)

/** Locks the row until the transaction ends, so that it does not change between read and update. */
export const lock = maybe(
  'generators.lock',
  Generator,
  (p: Slots<{ id: string }>) => `select ${columns} from generators where id = ${p.id}::uuid and deleted_at is null for no key update`,
)

export const update = one(
  'generators.update',
  Generator,
  (p: Slots<{ id: string; name: string; description: string | null; is_active: boolean }>) => `
  update generators set name = ${p.name}, description = ${p.description}, is_active = ${p.is_active}, ${touched}
  where id = ${p.id}::uuid returning ${columns}`,
)

export const setPak = one(
  'generators.setPak',
  Generator,
  (p: Slots<{ id: string; pak_hash: string; pak_short: string }>) => `
  update generators set pak_hash = ${p.pak_hash}, pak_short = ${p.pak_short}, ${touched} where id = ${p.id}::uuid returning ${columns}`,
)

export const markDeleted = count(
  'generators.markDeleted',
  (p: Slots<{ id: string }>) => `update generators set deleted_at = now(), ${touched} where id = ${p.id}::uuid`,
)

export const names = rows(
  'generators.names',
  Generator.pick({ id: true, name: true }),
  (p: Slots<NameKey & { limit: number }>) => `
  select id, name from generators
  where deleted_at is null and not is_system and (name, id) > (${p.after_name}::text, ${p.after_id}::uuid)
  order by name, id limit ${p.limit}::int`,
)

/** Writes no change row: subscribers do not need the last activity. */
export const touch = count(
  'generators.touch',
  (p: Slots<{ ids: string[] }>) => `update generators set last_active_at = now() where id = any(${p.ids}::uuid[]) and deleted_at is null`,
)
