// Creates tables and columns for a sink: types derived from the values of the first batch, with few and simple types.
import { isRawNumber, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import type pg from 'pg'
import { commaSeparated, quoteName } from './sql.ts'

export type ColumnType = 'text' | 'boolean' | 'numeric' | 'jsonb'

/** One type for all values of a column; text if they differ or are all null. */
function chooseColumnType(values: readonly Json[]): ColumnType {
  const types = new Set(values.filter((value) => value !== null).map(toColumnType))
  return types.size === 1 ? [...types][0]! : 'text'
}

function toColumnType(value: Json): ColumnType {
  if (typeof value === 'boolean') return 'boolean'
  if (typeof value === 'number' || isRawNumber(value)) return 'numeric'
  return typeof value === 'object' ? 'jsonb' : 'text'
}

export interface TableShape {
  /** Quoted. */
  readonly table: string
  readonly conflictKey: readonly string[]
  readonly softDeleteColumn?: string | undefined
}

/** `fields`: all keys with their values; the conflict key is the primary key if every record has it. */
export async function createTable(
  client: pg.Client,
  shape: TableShape,
  fields: ReadonlyMap<string, readonly Json[]>,
  count: number,
): Promise<void> {
  const isKeyed = shape.conflictKey.every((name) => (fields.get(name) ?? []).filter((value) => value !== null).length === count)
  const timeColumns = ['created_at', 'updated_at']
    .filter((name) => !fields.has(name))
    .map((name) => `${quoteName(name)} timestamptz default now()`)
  const soft = shape.softDeleteColumn
  const columns = [
    ...[...fields].map(([name, values]) => `${quoteName(name)} ${chooseColumnType(values)}`),
    ...timeColumns,
    ...(soft === undefined || fields.has(soft) || timeColumns.some((each) => each.startsWith(quoteName(soft)))
      ? []
      : [`${quoteName(soft)} timestamptz`]),
    ...(isKeyed ? [`primary key (${commaSeparated(shape.conflictKey.map(quoteName))})`] : []),
  ]
  await client.query(`create table if not exists ${shape.table} (${commaSeparated(columns)})`)
}

/** data and _metadata, or a column per metadata key; keys of an upsert have their own columns. */
export async function createRawTable(
  client: pg.Client,
  table: string,
  keys: readonly string[],
  metadata: readonly string[] | undefined,
): Promise<void> {
  const own = keys.filter((name) => name !== 'id').map((name) => `${quoteName(name)} text`)
  const columns = [
    keys.includes('id') ? '"id" text' : '"id" bigserial primary key',
    ...own,
    '"data" jsonb',
    ...(metadata === undefined ? ['"_metadata" jsonb'] : metadata.map((name) => `${quoteName(name)} text`)),
    '"created_at" timestamptz default now()',
    '"updated_at" timestamptz default now()',
    '"deleted_at" timestamptz',
    ...(keys.length === 0 ? [] : [`unique (${commaSeparated(keys.map(quoteName))})`]),
  ]
  await client.query(`create table if not exists ${table} (${commaSeparated(columns)})`)
  await client.query(`create index on ${table} using gin ("data")`)
}

/** Table for dead letters. */
export async function createDeadLetterTable(client: pg.Client, table: string): Promise<void> {
  await client.query(
    `create table if not exists ${table} ("id" text primary key, "error" jsonb, "original_message" jsonb,
      "created_at" timestamptz not null default now(), "replayed_at" timestamptz)`,
  )
}

export async function addColumns(client: pg.Client, table: string, unknown: ReadonlyMap<string, readonly Json[]>): Promise<void> {
  const clauses = [...unknown].map(([name, values]) => `add column if not exists ${quoteName(name)} ${chooseColumnType(values)}`)
  await client.query(`alter table ${table} ${commaSeparated(clauses)}`)
}
