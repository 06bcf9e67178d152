// Reads a table's columns, and whether it can hold batches exactly once.
import type { ClickhouseClient } from './client.ts'
import { splitTable } from './sql.ts'

/** Contains the id of the batch that wrote the row. */
export const batchColumn = '_brokkr_batch'

export interface Column {
  readonly name: string
  /** As the server prints it. */
  readonly type: string
  /** Without Nullable and LowCardinality. */
  readonly base: string
  readonly isNullable: boolean
  /** Null takes the column's default expression. */
  readonly hasDefault: boolean
}

export interface TableShape {
  /** Columns that an insert may name. */
  readonly columns: ReadonlyMap<string, Column>
  /** Why repeated batches cannot be detected; undefined if they can. */
  readonly cannotDeduplicate: string | undefined
  /** Several servers keep the table. */
  readonly isReplicated: boolean
  /** Materialized views read its inserts. */
  readonly hasViews: boolean
}

interface TableRow {
  readonly engine: string
  readonly engine_full: string
  readonly partition_key: string
}
type FoundTable = TableRow & { readonly views: number }
interface ColumnRow {
  readonly name: string
  readonly type: string
  readonly default_kind: string
}

/** Undefined if the table does not exist. */
export async function readTable(client: ClickhouseClient, table: string): Promise<TableShape | undefined> {
  const params = splitTable(table, client.database)
  const where = 'database = {database:String}'
  const [found] = await client.rows<FoundTable>({
    sql: `select engine, engine_full, partition_key, length(dependencies_table) as views from system.tables where ${where} and name = {name:String}`,
    params,
  })
  if (found === undefined) return undefined
  const columns = await client.rows<ColumnRow>({
    sql: `select name, type, default_kind from system.columns where ${where} and table = {name:String} order by position`,
    params,
  })
  const writable = columns.filter(({ default_kind }) => default_kind === '' || default_kind === 'DEFAULT' || default_kind === 'EPHEMERAL')
  const byName = new Map(writable.map((row) => [row.name, toColumn(row)]))
  return {
    columns: byName,
    cannotDeduplicate: whyNotDeduplicated(found, byName),
    isReplicated: /^(Replicated|Shared)/.test(found.engine),
    hasViews: found.views > 0,
  }
}

export function toColumn({ name, type, default_kind }: ColumnRow): Column {
  let base = type
  let isNullable = false
  for (let inner = unwrap(base); inner !== undefined; inner = unwrap(base)) {
    isNullable ||= base.startsWith('Nullable(')
    base = inner
  }
  return { name, type, base, isNullable, hasDefault: default_kind === 'DEFAULT' }
}

const unwrap = (type: string): string | undefined => /^(?:Nullable|LowCardinality)\((.*)\)$/.exec(type)?.[1]

/** Repeats are found by the batch id in the rows and by the token in the server's log; both need a table that keeps every row, and an
 *  insert that becomes one part. */
export function whyNotDeduplicated(table: TableRow, columns: ReadonlyMap<string, Column>): string | undefined {
  const { engine, engine_full: full, partition_key: partitionKey } = table
  if (!/^(Replicated|Shared)?MergeTree$/.test(engine)) return `the engine ${engine} does not keep every row as it was written`
  if (columns.get(batchColumn)?.base !== 'String') return `the table has no column ${batchColumn} of type LowCardinality(String)`
  if (partitionKey !== '') return 'the table has a partition key, so a batch is not stored as one part'
  const window = Number(/\bnon_replicated_deduplication_window = (\d+)/.exec(full)?.[1] ?? 0)
  if (engine === 'MergeTree' && window === 0) return 'the table has no non_replicated_deduplication_window'
  return undefined
}
