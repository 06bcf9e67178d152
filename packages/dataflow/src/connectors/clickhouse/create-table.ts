// Creates tables and columns for a sink, with types derived from the values of the first batch.
import type { ClickhouseSink } from '@brokkr/contract/dataflow/connectors/clickhouse.ts'
import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import { type InferredType, inferType } from '../column-values.ts'
import { quoteName } from './sql.ts'
import { batchColumn } from './table.ts'

/** Number of inserts whose tokens the server remembers. */
const deduplicationWindow = 1000
const batchColumnText = `${quoteName(batchColumn)} LowCardinality(String)`

type CreateConfig = Pick<ClickhouseSink, 'tableEngine' | 'replacingVersionColumn' | 'conflictKey' | 'upsertMode'>

const columnTypes: Readonly<Record<InferredType, string>> = {
  boolean: 'Bool',
  int64: 'Int64',
  float64: 'Float64',
  time: 'DateTime64(6)',
  text: 'String',
}

/** `fields`: all keys with their values; `count`: records of the batch. */
export function createTableText(table: string, config: CreateConfig, fields: ReadonlyMap<string, readonly Json[]>, count: number): string {
  const isKeyed = config.conflictKey.every((name) => (fields.get(name) ?? []).filter((value) => value !== null).length === count)
  const keys = new Set(isKeyed ? config.conflictKey : [])
  const version = config.replacingVersionColumn
  const columns = [...fields].map(([name, values]) => columnText(name, columnTypes[inferType(values)], keys.has(name) || name === version))
  if (version !== undefined && !fields.has(version)) columns.push(`${quoteName(version)} Int64`)
  return tableText(table, config, columns, keys.size === 0 ? [] : config.conflictKey)
}

const columnText = (name: string, type: string, isKey: boolean): string =>
  `${quoteName(name)} ${isKey ? type : type === 'String' ? 'Nullable(String)' : `Nullable(${type})`}`

export function createRawTableText(table: string, config: CreateConfig, metadata: readonly string[] | undefined): string {
  const keys = config.upsertMode ? config.conflictKey : []
  const columns = [
    ...keys.map((name) => `${quoteName(name)} String`),
    '`data` String',
    ...(metadata === undefined ? ['`_metadata` String'] : metadata.map((name) => `${quoteName(name)} Nullable(String)`)),
    '`created_at` DateTime64(6) DEFAULT now64(6)',
  ]
  return tableText(table, config, columns, keys)
}

/** The key of a table that replaces rows must be its order. */
function tableText(table: string, config: CreateConfig, columns: readonly string[], order: readonly string[]): string {
  const version = config.replacingVersionColumn
  const isReplacing = config.tableEngine === 'ReplacingMergeTree'
  const engine = isReplacing ? `ReplacingMergeTree(${version === undefined ? '' : quoteName(version)})` : 'MergeTree'
  const own = isReplacing ? columns : [...columns, batchColumnText]
  const settings = isReplacing ? '' : ` settings non_replicated_deduplication_window = ${deduplicationWindow}`
  const orderBy = order.length === 0 ? 'tuple()' : `(${order.map(quoteName).join(', ')})`
  return `create table if not exists ${table} (${own.join(', ')}) engine = ${engine} order by ${orderBy}${settings}`
}

/** A dead letter is stored once by its id; a later version of the row says that it was replayed or that it failed again. */
export const createDeadLetterTableText = (table: string): string =>
  `create table if not exists ${table} (\`id\` String, \`error\` String, \`original_message\` String,
    \`created_at\` DateTime64(6) DEFAULT now64(6), \`replayed_at\` Nullable(DateTime64(6)), \`version\` UInt64 DEFAULT 0)
    engine = ReplacingMergeTree(\`version\`) order by \`id\``

export const addColumnsText = (table: string, fields: ReadonlyMap<string, readonly Json[]>): string =>
  `alter table ${table} ${[...fields].map(([name, values]) => `add column if not exists ${columnText(name, columnTypes[inferType(values)], false)}`).join(', ')}`
