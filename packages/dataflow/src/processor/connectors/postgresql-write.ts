// A batch inside its transaction: deletes, then rows grouped by the columns they have, one statement or one COPY per group.
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import type pg from 'pg'
import copyStreams from 'pg-copy-streams'
import { type Columns, copyRow } from './postgresql-columns.ts'
import { sqlStateOf } from './postgresql-errors.ts'
import type { Row } from './postgresql-rows.ts'
import {
  type BatchStatements,
  insertStatement,
  type RowGroup,
  type Statement,
  upsertClause,
  type WriteConfig,
} from './postgresql-statements.ts'
import { commaSeparated, quoted } from './sql.ts'

const stage = 'pg_temp.brokkr_stage'
const copyChunkBytes = 64 * 1024

/** How many plain inserts met a row that was there. */
export async function writeBatch(client: pg.Client, batch: BatchStatements, columns: Columns, config: WriteConfig): Promise<number> {
  if (batch.deletes !== undefined) await run(client, batch.deletes)
  let ignored = 0
  for (const group of batch.groups) ignored += await writeGroup(client, group, columns, config)
  return ignored
}

/** Rows that it changed. */
async function run(client: pg.Client, { text, values }: Statement): Promise<number> {
  return (await client.query({ text, values: [...values] })).rowCount ?? 0
}

async function writeGroup(client: pg.Client, group: RowGroup, columns: Columns, config: WriteConfig): Promise<number> {
  const { rows, way, statement } = group
  if (way === 'defaults') {
    for (let each = 0; each < rows.length; each += 1) await client.query(`insert into ${config.table} default values`)
    return 0
  }
  if (way === 'copy-upsert') await upsertByCopy(client, rows, config)
  if (way === 'upsert') await run(client, statement!)
  if (config.upsertMode || (way === 'copy' && (await insertByCopy(client, rows, config)))) return 0
  return rows.length - (await run(client, statement ?? insertStatement(rows, columns, config)))
}

/** False when a row was there already and the next path has to sort that out. */
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
  const list = commaSeparated(names.map(quoted))
  await client.query(`drop table if exists ${stage}`)
  await client.query(`create temp table brokkr_stage on commit drop as select ${list} from ${config.table} with no data`)
  await copyInto(client, stage, rows)
  const insert = `insert into ${config.table} (${list}) overriding system value select ${list} from ${stage}`
  await client.query(`${insert} ${upsertClause(names, config)}`)
  await client.query(`drop table ${stage}`)
}

async function copyInto(client: pg.Client, table: string, rows: readonly Row[]): Promise<void> {
  const { shape } = rows[0]!
  const stream = client.query(copyStreams.from(`copy ${table} (${commaSeparated(shape.names.map(quoted))}) from stdin`))
  // Awaited at the end; an error before that must not go unheard.
  const done = finished(stream)
  done.catch(() => undefined)
  let chunk = ''
  for (const row of rows) {
    chunk += copyRow(row.shape === shape ? row.values : shape.names.map((name) => row.get(name) ?? null))
    if (chunk.length < copyChunkBytes) continue
    if (!stream.write(chunk)) await Promise.race([once(stream, 'drain'), done])
    chunk = ''
  }
  stream.end(chunk)
  await done
}
