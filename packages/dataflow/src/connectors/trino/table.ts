// Reads the columns of a table from the catalog, and creates tables and columns with types derived from values.

import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import { type InferredType, inferType } from '../column-values.ts'
import type { TrinoClient } from './client.ts'
import type { Column } from './literals.ts'
import { quoteName, quotePlace, quoteText, type TablePlace } from './sql.ts'

export type Columns = ReadonlyMap<string, Column>

/** Undefined if the table does not exist. */
export async function readColumns(client: TrinoClient, { catalog, schema, table }: TablePlace): Promise<Columns | undefined> {
  const { rows } = await client.query(
    `SELECT column_name, data_type, is_nullable FROM ${quoteName(catalog)}.information_schema.columns
     WHERE table_schema = ${quoteText(schema.toLowerCase())} AND table_name = ${quoteText(table.toLowerCase())} ORDER BY ordinal_position`,
  )
  if (rows.length === 0) return undefined
  return new Map(
    rows.map(([name, type, nullable]) => [name as string, { name: name as string, type: type as string, isNullable: nullable !== 'NO' }]),
  )
}

const columnTypes: Readonly<Record<InferredType, string>> = {
  boolean: 'boolean',
  int64: 'bigint',
  float64: 'double',
  time: 'timestamp(6) with time zone',
  text: 'varchar',
}

type Fields = ReadonlyMap<string, readonly Json[]>
const columnText = (name: string, type: string): string => `${quoteName(name)} ${type}`

export const createTableText = (place: TablePlace, fields: Fields): string =>
  `CREATE TABLE IF NOT EXISTS ${quotePlace(place)} (${[...fields].map(([name, values]) => columnText(name, columnTypes[inferType(values)])).join(', ')})`

/** Payload and metadata are texts; with `metadata`, each of these keys has a column. */
export const createRawTableText = (place: TablePlace, metadata: readonly string[] | undefined): string =>
  `CREATE TABLE IF NOT EXISTS ${quotePlace(place)} (${['data', ...(metadata ?? ['_metadata'])].map((name) => columnText(name, 'varchar')).join(', ')})`

export const createDeadLetterTableText = (place: TablePlace): string =>
  `CREATE TABLE IF NOT EXISTS ${quotePlace(place)} (id varchar, error varchar, original_message varchar,
    created_at timestamp(6) with time zone, replayed_at timestamp(6) with time zone)`

export const addColumnText = (place: TablePlace, name: string, values: readonly Json[]): string =>
  `ALTER TABLE ${quotePlace(place)} ADD COLUMN IF NOT EXISTS ${columnText(name, columnTypes[inferType(values)])}`
