// Plans a batch: rows with columns as text, deletes by key, each key once. Pure. A record that cannot be written is named by its index
// before any statement is sent.
import type { PostgresqlSink } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import { isRecord, type Json, type JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withoutValues } from '../../message/message.ts'
import { ConnectorError, type Rec } from '../connector.ts'
import { toRawColumns } from '../raw-columns.ts'
import { type Columns, columnText } from './columns.ts'
import { Row, RowShape } from './rows.ts'

export interface Plan {
  /** In order; each round contains a key at most once. */
  readonly rounds: readonly (readonly Row[])[]
  /** Keys, one text per column of the conflict key. */
  readonly deletes: readonly (readonly string[])[]
}
export type PlanConfig = Pick<
  PostgresqlSink,
  | 'upsertMode'
  | 'conflictKey'
  | 'upsertStrategy'
  | 'deleteMode'
  | 'softDeleteColumn'
  | 'unknownFields'
  | 'rawMode'
  | 'flattenMetadataColumns'
  | 'flattenMetadataColumnsPrefix'
>

type Operation = { readonly do: 'write'; readonly row: Row } | { readonly do: 'delete'; readonly key: readonly string[] }

/** `shapes` is the root of the shape tree; later batches reuse its shapes. */
export function planBatch(batch: readonly Rec[], columns: Columns, config: PlanConfig, shapes = RowShape.empty()): Plan {
  const operations: Operation[] = []
  for (const [index, record] of batch.entries()) {
    const operation = toOperation(record, index, { columns, shapes }, config)
    // Only the texts are kept: the values would otherwise survive two garbage collections while the server works.
    withoutValues(record)
    if (operation !== undefined) operations.push(operation)
  }
  return config.upsertMode ? foldUpserts(operations, config) : foldInserts(operations, config)
}

/** Keys of the payloads without a column, each with its values: what addColumn adds. */
export function unknownKeys(batch: readonly Rec[], columns: Columns, config: PlanConfig): Map<string, Json[]> {
  const unknown = new Map<string, Json[]>()
  for (const [index, record] of batch.entries()) {
    const fields = toFields(record, index, config)
    for (const [key, value] of Object.entries(fields)) {
      if (columns.has(key)) continue
      checkName(key, index)
      const values = unknown.get(key)
      if (values === undefined) unknown.set(key, [value])
      else values.push(value)
    }
  }
  return unknown
}

/** Names that no column can have: the server would reject the statement or truncate the name, and only this record is at fault. */
function checkName(key: string, index: number): void {
  if (key === '' || key.includes('\0') || Buffer.byteLength(key) > nameBytesMax)
    throw refuse(index, `a field's name is blank, holds a NUL or has more than ${nameBytesMax} bytes: no column can be called so`)
}
const nameBytesMax = 63

/** Fields that a record writes, before they are matched with columns. */
function toFields(record: Rec, index: number, config: PlanConfig): JsonObject {
  if (config.rawMode) return toRawColumns(record, config, index)
  const payload = getPayload(record)
  if (!isRecord(payload)) throw refuse(index, 'the payload is not an object')
  return payload
}

const refuse = (recordIndex: number, message: string) => new ConnectorError({ class: 'record', type: 'invalid_data', recordIndex }, message)

interface Table {
  readonly columns: Columns
  readonly shapes: RowShape
}

function toOperation(record: Rec, index: number, table: Table, config: PlanConfig): Operation | undefined {
  const isDelete = record.metadata['operation'] === 'delete' && config.deleteMode !== 'row'
  if (isDelete && config.deleteMode === 'ignore') return undefined
  if (isDelete) return { do: 'delete', key: deleteKey(record, index, table.columns, config) }
  const row = buildRow(toFields(record, index, config), index, table, config)
  if (config.upsertMode)
    for (const key of config.conflictKey) if ((row.get(key) ?? null) === null) throw refuse(index, `the key ${key} is missing or null`)
  // An upsert of a soft-deleted row clears its deletion mark.
  if (
    config.deleteMode === 'soft' &&
    config.softDeleteColumn !== undefined &&
    config.upsertMode &&
    row.get(config.softDeleteColumn) === undefined
  )
    row.set(config.softDeleteColumn, null)
  return { do: 'write', row }
}

function buildRow(fields: JsonObject, index: number, { columns, shapes }: Table, config: PlanConfig): Row {
  let shape = shapes
  const values: (string | null)[] = []
  for (const key of Object.keys(fields)) {
    const column = columns.get(key)
    if (column === undefined && config.unknownFields === 'deadLetter') throw refuse(index, `no column for the field ${key}`)
    if (column === undefined || column.isGenerated) continue
    shape = shape.with(key)
    values.push(columnText(column, fields[key]!))
  }
  return new Row(shape, values)
}

function deleteKey(record: Rec, index: number, columns: Columns, { conflictKey }: PlanConfig): readonly string[] {
  const payload = getPayload(record)
  return conflictKey.map((name) => {
    const inPayload = isRecord(payload) && Object.hasOwn(payload, name) ? payload[name] : undefined
    const value = inPayload ?? (conflictKey.length === 1 ? (record.metadata['id'] as Json | undefined) : undefined)
    const column = columns.get(name)
    if (column === undefined)
      throw new ConnectorError({ class: 'config', type: 'unknown' }, `the table has no column ${name}, which is the conflictKey`)
    const text = value === undefined ? null : columnText(column, value)
    if (text === null) throw refuse(index, `the delete says no key ${name}`)
    return text
  })
}

const toConflictKey = (row: Row, { conflictKey }: PlanConfig): string => textKey(conflictKey.map((name) => row.get(name) ?? null))
/** PostgreSQL text cannot contain NUL. */
const textKey = (key: readonly (string | null)[]): string => (key.length === 1 ? (key[0] ?? '\0') : JSON.stringify(key))

/** The last operation of a key wins; earlier writes add fields that it lacks, unless the table compares versions. */
function foldUpserts(operations: readonly Operation[], config: PlanConfig): Plan {
  const writes = new Map<string, Row[]>()
  const deletes = new Map<string, readonly string[]>()
  for (const operation of operations) {
    if (operation.do === 'delete') {
      writes.delete(textKey(operation.key))
      deletes.set(textKey(operation.key), operation.key)
      continue
    }
    const key = toConflictKey(operation.row, config)
    deletes.delete(key)
    const earlier = writes.get(key)
    if (earlier === undefined) writes.set(key, [operation.row])
    else if (config.upsertStrategy === 'ifNewer') earlier.push(operation.row)
    else earlier[0]!.merge(operation.row)
  }
  return { rounds: toRounds([...writes.values()]), deletes: [...deletes.values()] }
}

/** The first row of every key, then the second rows, and so on. */
function toRounds(rowsByKey: readonly (readonly Row[])[]): Row[][] {
  const rounds: Row[][] = []
  for (const rows of rowsByKey) for (const [round, row] of rows.entries()) (rounds[round] ??= []).push(row)
  return rounds
}

/** Inserts are kept as they are; a later delete of the same key removes earlier ones. */
function foldInserts(operations: readonly Operation[], config: PlanConfig): Plan {
  if (operations.every((operation) => operation.do === 'write')) return { rounds: [operations.map(({ row }) => row)], deletes: [] }
  const deletes = new Map<string, readonly string[]>()
  let rows: Row[] = []
  for (const operation of operations) {
    if (operation.do === 'delete') {
      deletes.set(textKey(operation.key), operation.key)
      rows = rows.filter((row) => toConflictKey(row, config) !== textKey(operation.key))
    } else rows.push(operation.row)
  }
  // Deletes come first, so that a row inserted after its delete stays.
  return { rounds: [rows], deletes: [...deletes.values()] }
}
