// The statements of a batch inside its transaction: deletes, then rows grouped by the columns they have, one statement per group. All
// values travel as text and are cast by column type: no limit of parameters, no lost digits. Large groups go by COPY: 393,000 rows a
// second against 122,000 for unnest.
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import type pg from 'pg'
import copyStreams from 'pg-copy-streams'
import { type Columns, copyRow, textArray } from './postgresql-columns.ts'
import { sqlStateOf } from './postgresql-errors.ts'
import type { Plan, Row } from './postgresql-plan.ts'
import { commaSeparated, quoted } from './sql.ts'

export interface WriteConfig {
  /** Quoted. */
  readonly table: string
  readonly upsertMode: boolean
  readonly conflictKey: readonly string[]
  readonly upsertStrategy: 'always' | 'ifNewer'
  readonly upsertVersionColumn?: string | undefined
  readonly onConflict: 'ignore' | 'error'
  readonly deleteMode: 'soft' | 'hard' | 'row' | 'ignore'
  readonly softDeleteColumn?: string | undefined
}

const copyInsertsMin = 200
const copyUpsertsMin = 5_000
const stage = 'pg_temp.brokkr_stage'
const copyChunkBytes = 64 * 1024

/** How many plain inserts met a row that was there. */
export async function writePlan(client: pg.Client, plan: Plan, columns: Columns, config: WriteConfig): Promise<number> {
  if (plan.deletes.length > 0) await deleteRows(client, plan.deletes, columns, config)
  let ignored = 0
  for (const round of plan.rounds) {
    for (const rows of groupByColumns(round)) ignored += await writeGroup(client, rows, columns, config)
  }
  return ignored
}

/** In order of their first row. */
export function groupByColumns(rows: readonly Row[]): Row[][] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const key = JSON.stringify([...row.keys()].toSorted())
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [row])
    else group.push(row)
  }
  return [...groups.values()]
}

async function writeGroup(client: pg.Client, rows: readonly Row[], columns: Columns, config: WriteConfig): Promise<number> {
  const names = [...rows[0]!.keys()]
  if (names.length === 0) return insertDefaults(client, rows.length, config)
  if (config.upsertMode) {
    if (rows.length >= copyUpsertsMin) await upsertByCopy(client, rows, names, config)
    else await insertByUnnest(client, rows, names, columns, config, upsertClause(names, config))
    return 0
  }
  if (rows.length >= copyInsertsMin && (await insertByCopy(client, rows, names, config))) return 0
  const clause = config.onConflict === 'ignore' ? 'on conflict do nothing' : ''
  return rows.length - (await insertByUnnest(client, rows, names, columns, config, clause))
}

async function insertDefaults(client: pg.Client, count: number, { table }: WriteConfig): Promise<number> {
  for (let each = 0; each < count; each += 1) await client.query(`insert into ${table} default values`)
  return 0
}

async function insertByUnnest(
  client: pg.Client,
  rows: readonly Row[],
  names: readonly string[],
  columns: Columns,
  { table }: WriteConfig,
  clause: string,
): Promise<number> {
  const list = commaSeparated(names.map(quoted))
  const casts = commaSeparated(names.map((name) => `u.${quoted(name)}::${columns.get(name)!.type}`))
  const arrays = commaSeparated(names.map((_name, index) => `$${index + 1}::text[]`))
  const text = `insert into ${table} (${list}) overriding system value select ${casts} from unnest(${arrays}) as u(${list}) ${clause}`
  const values = names.map((name) => textArray(rows.map((row) => row.get(name) ?? null)))
  return (await client.query({ text, values })).rowCount ?? 0
}

function upsertClause(names: readonly string[], { conflictKey, upsertStrategy, upsertVersionColumn, table }: WriteConfig): string {
  const keys = commaSeparated(conflictKey.map(quoted))
  const changed = names.filter((name) => !conflictKey.includes(name))
  if (changed.length === 0) return `on conflict (${keys}) do nothing`
  const sets = commaSeparated(changed.map((name) => `${quoted(name)} = excluded.${quoted(name)}`))
  const version = upsertVersionColumn === undefined ? undefined : quoted(upsertVersionColumn)
  // Equal versions: the later one wins.
  const guard =
    upsertStrategy === 'ifNewer' && version !== undefined
      ? `where ${table}.${version} is null or ${table}.${version} <= excluded.${version}`
      : ''
  return `on conflict (${keys}) do update set ${sets} ${guard}`
}

/** False when a row was there already and the next path has to sort that out. */
async function insertByCopy(
  client: pg.Client,
  rows: readonly Row[],
  names: readonly string[],
  { table, onConflict }: WriteConfig,
): Promise<boolean> {
  await client.query('savepoint brokkr_copy')
  try {
    await copyInto(client, table, rows, names)
    await client.query('release savepoint brokkr_copy')
    return true
  } catch (thrown) {
    if (onConflict !== 'ignore' || sqlStateOf(thrown) !== '23505') throw thrown
    await client.query('rollback to savepoint brokkr_copy')
    return false
  }
}

async function upsertByCopy(client: pg.Client, rows: readonly Row[], names: readonly string[], config: WriteConfig): Promise<void> {
  const list = commaSeparated(names.map(quoted))
  await client.query(`drop table if exists ${stage}`)
  await client.query(`create temp table brokkr_stage on commit drop as select ${list} from ${config.table} with no data`)
  await copyInto(client, stage, rows, names)
  const insert = `insert into ${config.table} (${list}) overriding system value select ${list} from ${stage}`
  await client.query(`${insert} ${upsertClause(names, config)}`)
  await client.query(`drop table ${stage}`)
}

async function copyInto(client: pg.Client, table: string, rows: readonly Row[], names: readonly string[]): Promise<void> {
  const stream = client.query(copyStreams.from(`copy ${table} (${commaSeparated(names.map(quoted))}) from stdin`))
  // Awaited at the end; an error before that must not go unheard.
  const done = finished(stream)
  done.catch(() => undefined)
  let chunk = ''
  for (const row of rows) {
    chunk += copyRow(names.map((name) => row.get(name) ?? null))
    if (chunk.length < copyChunkBytes) continue
    if (!stream.write(chunk)) await Promise.race([once(stream, 'drain'), done])
    chunk = ''
  }
  stream.end(chunk)
  await done
}

async function deleteRows(client: pg.Client, keys: readonly (readonly string[])[], columns: Columns, config: WriteConfig): Promise<void> {
  const { table, conflictKey, deleteMode, softDeleteColumn } = config
  const list = commaSeparated(conflictKey.map(quoted))
  const arrays = commaSeparated(conflictKey.map((_name, index) => `$${index + 1}::text[]`))
  const same = conflictKey.map((name) => `t.${quoted(name)} = u.${quoted(name)}::${columns.get(name)!.type}`).join(' and ')
  const values = conflictKey.map((_name, index) => textArray(keys.map((key) => key[index]!)))
  const from = `unnest(${arrays}) as u(${list}) where ${same}`
  const text =
    deleteMode === 'soft' && softDeleteColumn !== undefined
      ? `update ${table} as t set ${quoted(softDeleteColumn)} = now() from ${from}`
      : `delete from ${table} as t using ${from}`
  await client.query({ text, values })
}
