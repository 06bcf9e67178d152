// Converts records to rows of a table, grouped by partition and cut by the size of a file. Pure. A record that cannot be written is named
// by its index before anything is sent.
import type { IcebergSink } from '@brokkr/contract/dataflow/connectors/iceberg.ts'
import { isRecord, type Json, type JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withoutValues } from '../../message/message.ts'
import { ConnectorError, type Rec } from '../connector.ts'
import { toRawColumns } from '../raw-columns.ts'
import { type PartitionColumn, partitionTuple, tupleKey } from './partition-values.ts'
import { columnsOf, type Schema, type StructType } from './schema.ts'
import { type Stored, toStored } from './values.ts'

export type RowConfig = Pick<IcebergSink, 'unknownFields' | 'rawMode' | 'flattenMetadataColumns' | 'flattenMetadataColumnsPrefix'>

/** Rows of one file. */
export interface RowGroup {
  readonly tuple: readonly Stored[]
  readonly rows: (readonly Stored[])[]
}

export function buildRows(
  records: readonly Rec[],
  schema: Schema,
  partitionColumns: readonly PartitionColumn[],
  config: RowConfig & { readonly targetFileBytes: number },
): RowGroup[] {
  const columns = columnsOf(schema)
  const groups = new Map<string, RowGroup & { bytes: number }>()
  const full: RowGroup[] = []
  for (const [index, record] of records.entries()) {
    const row = toRow(record, index, schema, columns, config)
    withoutValues(record)
    const tuple = partitionTuple(partitionColumns, row)
    const key = tupleKey(tuple)
    const group = groups.get(key) ?? { tuple, rows: [], bytes: 0 }
    groups.set(key, group)
    group.rows.push(row)
    group.bytes += record.bytes
    if (group.bytes < config.targetFileBytes) continue
    full.push(group)
    groups.delete(key)
  }
  return [...full, ...groups.values()]
}

function toRow(record: Rec, index: number, schema: Schema, columns: ReadonlyMap<string, unknown>, config: RowConfig): Stored[] {
  const fields = toFields(record, index, config)
  if (config.unknownFields !== 'ignore')
    for (const key of Object.keys(fields)) if (!columns.has(key)) throw refuse(index, `no column for the field ${key}`)
  return schema.fields.map((field) => {
    const fitted = toStored(field, Object.hasOwn(fields, field.name) ? fields[field.name] : undefined)
    if ('problem' in fitted) throw refuse(index, `the value of ${field.name} ${fitted.problem}`)
    return fitted.value
  })
}

/** Fields that a record writes. */
export function toFields(record: Rec, index: number, config: RowConfig): JsonObject {
  if (config.rawMode) {
    const columns = toRawColumns(record, { ...config, upsertMode: false, conflictKey: [] }, index)
    return Object.fromEntries(Object.entries(columns).map(([name, value]) => [name, asText(name, value)]))
  }
  const payload = getPayload(record)
  if (!isRecord(payload)) throw refuse(index, 'the payload is not an object')
  return payload
}

/** In raw mode payload and metadata are JSON texts. */
const asText = (name: string, value: Json): Json =>
  name === 'data' || name === '_metadata' || (typeof value === 'object' && value !== null) ? JSON.stringify(value) : value

/** A table with only these two columns of text holds payloads as they are. */
export const isRawTable = ({ fields }: StructType): boolean =>
  fields.length === 2 && fields.every(({ name, type }) => (name === 'data' || name === '_metadata') && type === 'string')

const refuse = (recordIndex: number, message: string): ConnectorError =>
  new ConnectorError({ class: 'record', type: 'invalid_data', recordIndex }, message)
