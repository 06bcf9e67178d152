// Tables and columns that a sink makes itself: types from the values of the first batch, as few and as plain as possible.
import { isRawNumber, type Json } from '@brokkr/contract/dataflow/json.ts'
import type pg from 'pg'
import { commaSeparated, quoted } from './sql.ts'

export type ColumnType = 'text' | 'boolean' | 'numeric' | 'jsonb'

/** One type for all values of a column; text when they differ or are all null. */
export function typeFor(values: readonly Json[]): ColumnType {
  const types = new Set(values.filter((value) => value !== null).map(typeOf))
  return types.size === 1 ? [...types][0]! : 'text'
}

function typeOf(value: Json): ColumnType {
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

/** `fields`: the union of the keys, each with the values it has; the key is the primary key when every record has it. */
export async function createTable(
  client: pg.Client,
  shape: TableShape,
  fields: ReadonlyMap<string, readonly Json[]>,
  count: number,
): Promise<void> {
  const isKeyed = shape.conflictKey.every((name) => (fields.get(name) ?? []).filter((value) => value !== null).length === count)
  const added = ['created_at', 'updated_at'].filter((name) => !fields.has(name)).map((name) => `${quoted(name)} timestamptz default now()`)
  const soft = shape.softDeleteColumn
  const columns = [
    ...[...fields].map(([name, values]) => `${quoted(name)} ${typeFor(values)}`),
    ...added,
    ...(soft === undefined || fields.has(soft) || added.some((each) => each.startsWith(quoted(soft)))
      ? []
      : [`${quoted(soft)} timestamptz`]),
    ...(isKeyed ? [`primary key (${commaSeparated(shape.conflictKey.map(quoted))})`] : []),
  ]
  await client.query(`create table if not exists ${shape.table} (${commaSeparated(columns)})`)
}

/** data and _metadata, or a column for each key of the metadata; keys of an upsert have columns of their own. */
export async function createRawTable(
  client: pg.Client,
  table: string,
  keys: readonly string[],
  metadata: readonly string[] | undefined,
): Promise<void> {
  const own = keys.filter((name) => name !== 'id').map((name) => `${quoted(name)} text`)
  const columns = [
    keys.includes('id') ? '"id" text' : '"id" bigserial primary key',
    ...own,
    '"data" jsonb',
    ...(metadata === undefined ? ['"_metadata" jsonb'] : metadata.map((name) => `${quoted(name)} text`)),
    '"created_at" timestamptz default now()',
    '"updated_at" timestamptz default now()',
    '"deleted_at" timestamptz',
    ...(keys.length === 0 ? [] : [`unique (${commaSeparated(keys.map(quoted))})`]),
  ]
  await client.query(`create table if not exists ${table} (${commaSeparated(columns)})`)
  await client.query(`create index on ${table} using gin ("data")`)
}

/** Letters. */
export async function createLetterTable(client: pg.Client, table: string): Promise<void> {
  await client.query(
    `create table if not exists ${table} ("id" text primary key, "error" jsonb, "original_message" jsonb,
      "created_at" timestamptz not null default now(), "replayed_at" timestamptz)`,
  )
}

export async function addColumns(client: pg.Client, table: string, unknown: ReadonlyMap<string, readonly Json[]>): Promise<void> {
  const added = [...unknown].map(([name, values]) => `add column if not exists ${quoted(name)} ${typeFor(values)}`)
  await client.query(`alter table ${table} ${commaSeparated(added)}`)
}
