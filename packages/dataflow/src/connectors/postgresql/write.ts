// Writes a batch inside its transaction: deletes, then rows grouped by columns, one statement or COPY per group.
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import type { BatchStatement } from '@brokkr/postgres'
import type pg from 'pg'
import copyStreams from 'pg-copy-streams'
import { type Columns, copyRow } from './columns.ts'
import { sqlStateOf } from './errors.ts'
import type { Row } from './rows.ts'
import { commaSeparated, quoteName } from './sql.ts'
import { type BatchStatements, insertStatement, type RowGroup, upsertClause, type WriteConfig } from './statements.ts'

const stage = 'pg_temp.brokkr_stage'
const copyChunkBytes = 64 * 1024

/** Returns the number of plain inserts that met an existing row. */
export async function writeBatch(client: pg.Client, batch: BatchStatements, columns: Columns, config: WriteConfig): Promise<number> {
  if (batch.deletes !== undefined) await runStatement(client, batch.deletes)
  let ignored = 0
  for (const group of batch.groups) ignored += await writeGroup(client, group, columns, config)
  return ignored
}

/** Number of changed rows. */
export async function runStatement(client: pg.Client, { text, values }: BatchStatement): Promise<number> {
  return (await client.query({ text, values: [...values] })).rowCount ?? 0
}

async function writeGroup(client: pg.Client, group: RowGroup, columns: Columns, config: WriteConfig): Promise<number> {
  if (group.way === 'statement') return countIgnoredRows(group.count, await runStatement(client, group.statement), config)
  const { way, rows } = group
  if (way === 'defaults') for (let each = 0; each < rows.length; each += 1) await client.query(`insert into ${config.table} default values`)
  else if (way === 'copy-upsert') await upsertByCopy(client, rows, config)
  else if (!(await insertByCopy(client, rows, config)))
    return countIgnoredRows(rows.length, await runStatement(client, insertStatement(rows, columns, config)), config)
  return 0
}

/** The same for a batch of statements, from the rows that each of them changed. */
export function countIgnored({ deletes, groups }: BatchStatements, changed: readonly number[], config: WriteConfig): number {
  const first = deletes === undefined ? 0 : 1
  return groups.reduce(
    (sum, group, at) => sum + (group.way === 'statement' ? countIgnoredRows(group.count, changed[first + at]!, config) : 0),
    0,
  )
}

/** An upsert that changed nothing ignored no conflict. */
const countIgnoredRows = (count: number, changed: number, { upsertMode }: WriteConfig): number => (upsertMode ? 0 : count - changed)

/** False if a row existed and the next path must handle it. */
async function insertByCopy(client: pg.Client, rows: readonly Row[], { table, onConflict }: WriteConfig): Promise<boolean> {
  await client.query('savepoint brokkr_copy')
  try {
    await copyInto(client, table, rows)
    await client.query('release savepoint brokkr_copy')
    return true
  } catch (thrown) {
    if (onConflict !== 'ignore' || sqlStateOf(thrown) !== '23505') throw thrown
    await client.query('rollback to savepoint brokkr_copy')
    return false
  }
}

async function upsertByCopy(client: pg.Client, rows: readonly Row[], config: WriteConfig): Promise<void> {
  const { names } = rows[0]!.shape
  const list = commaSeparated(names.map(quoteName))
  await client.query(`drop table if exists ${stage}`)
  await client.query(`create temp table brokkr_stage on commit drop as select ${list} from ${config.table} with no data`)
  await copyInto(client, stage, rows)
  const insert = `insert into ${config.table} (${list}) overriding system value select ${list} from ${stage}`
  await client.query(`${insert} ${upsertClause(names, config)}`)
  await client.query(`drop table ${stage}`)
}

async function copyInto(client: pg.Client, table: string, rows: readonly Row[]): Promise<void> {
  const { shape } = rows[0]!
  const stream = client.query(copyStreams.from(`copy ${table} (${commaSeparated(shape.names.map(quoteName))}) from stdin`))
  // Awaited at the end; an earlier error must not be unhandled.
  const completion = finished(stream)
  completion.catch(() => undefined)
  let chunk = ''
  for (const row of rows) {
    chunk += copyRow(row.shape === shape ? row.values : shape.names.map((name) => row.get(name) ?? null))
    if (chunk.length < copyChunkBytes) continue
    if (!stream.write(chunk)) await Promise.race([once(stream, 'drain'), completion])
    chunk = ''
  }
  stream.end(chunk)
  await completion
}
