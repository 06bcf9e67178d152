// Generators: whoever submits desired state.
import { Generator } from '@brokkr/contract/generator.ts'
import { z } from 'zod'
import { count, lookUp, maybe, type NameKey, one, rows, type Slots, touched } from './sql.ts'

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

const listing = (name: string, led: string) =>
  rows(
    `generators.${name}`,
    Generator,
    (p: Slots<NameKey & { name: string | null; limit: number }>) => `
  select ${columns} from generators
  where ${led} and not is_system and (name, id) > (${p.after_name}::text, ${p.after_id}::uuid) and (${p.name}::text is null or name = ${p.name})
  order by name, id limit ${p.limit}::int`,
  )
export const list = listing('list', 'deleted_at is null')
export const listWithDeleted = listing('listWithDeleted', 'true')

export const system = maybe(
  'generators.system',
  z.object({ id: z.string() }),
  () => `select id from generators where is_system and deleted_at is null`,
)

export const liveAmong = rows(
  'generators.liveAmong',
  z.object({ id: z.string() }),
  (p: Slots<{ ids: string[] }>) => `
  select id from generators where id = any(${p.ids}::uuid[]) and deleted_at is null`,
)

/** Held until the transaction ends, so that what was read is still true when it is changed. */
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

/** Not in the feed: last activity is nothing that anybody follows. */
export const touch = count(
  'generators.touch',
  (p: Slots<{ ids: string[] }>) => `update generators set last_active_at = now() where id = any(${p.ids}::uuid[]) and deleted_at is null`,
)
