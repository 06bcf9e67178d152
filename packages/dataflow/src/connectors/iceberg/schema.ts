// Iceberg schemas as the catalog sends them, and types of new columns. Pure.
import { parseInstant } from '@brokkr/contract/dataflow/language/instant.ts'
import { isRecord, type Json, type JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { inferType } from '../column-values.ts'
import { ConnectorError } from '../connector.ts'
import { configError } from './errors.ts'

/** A name such as `long` or `decimal(10, 2)`, or a nested type. */
export type IcebergType = string | StructType | ListType | MapType
export interface StructType {
  readonly type: 'struct'
  readonly fields: readonly Field[]
}
export interface ListType {
  readonly type: 'list'
  readonly 'element-id': number
  readonly element: IcebergType
  readonly 'element-required': boolean
}
export interface MapType {
  readonly type: 'map'
  readonly 'key-id': number
  readonly key: IcebergType
  readonly 'value-id': number
  readonly value: IcebergType
  readonly 'value-required': boolean
}
export interface Field {
  readonly id: number
  readonly name: string
  readonly required: boolean
  readonly type: IcebergType
}
export interface Schema extends StructType {
  readonly 'schema-id': number
  readonly 'identifier-field-ids'?: readonly number[]
}

export const findField = (schema: StructType, name: string): Field | undefined => schema.fields.find((field) => field.name === name)

export const columnsOf = (schema: StructType): Map<string, Field> => new Map(schema.fields.map((field) => [field.name, field]))

export function parseDecimalType(type: string): { precision: number; scale: number } | undefined {
  const [, precision, scale] = /^decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)$/.exec(type) ?? []
  return precision === undefined ? undefined : { precision: Number(precision), scale: Number(scale) }
}

export function parseFixedType(type: string): number | undefined {
  const length = /^fixed\[(\d+)\]$/.exec(type)?.[1]
  return length === undefined ? undefined : Number(length)
}

const typeOfInferred = { boolean: 'boolean', int64: 'long', float64: 'double', time: 'timestamptz', text: 'string' } as const

/** Optional columns for fields of records, with ids behind `lastId`. */
export function toNewFields(fields: ReadonlyMap<string, readonly Json[]>, lastId: number): Field[] {
  return [...fields].map(([name, values], index) => ({
    id: lastId + index + 1,
    name,
    required: false,
    type: values.some(isFinerThanMicros) ? 'string' : typeOfInferred[inferType(values)],
  }))
}

/** No time column holds it. */
const isFinerThanMicros = (value: Json): boolean =>
  typeof value === 'string' && /\.\d{6}\d*[1-9]/.test(value) && parseInstant(value) !== undefined

export const textFields = (names: readonly string[], lastId = 0): Field[] =>
  names.map((name, index) => ({ id: lastId + index + 1, name, required: false, type: 'string' }))

/** Columns of a dead-letter table. */
export const deadLetterFields: readonly Field[] = [
  ...textFields(['id', 'error', 'original_message']),
  { id: 4, name: 'created_at', required: false, type: 'timestamptz' },
  { id: 5, name: 'replayed_at', required: false, type: 'timestamptz' },
]

/** What the connector needs of a table's metadata. Ids are digits, because they have 63 bits. */
export interface TableMetadata {
  readonly formatVersion: number
  readonly uuid: string
  readonly location: string
  readonly properties: Readonly<Record<string, string>>
  readonly schema: Schema
  readonly schemas: readonly Schema[]
  readonly lastColumnId: number
  readonly specs: readonly PartitionSpec[]
  readonly defaultSpecId: number
  readonly lastSequenceNumber: number
  /** Undefined for a table without a snapshot. */
  readonly currentSnapshotId: string | undefined
  readonly snapshots: ReadonlyMap<string, Snapshot>
}
export interface PartitionSpec {
  readonly 'spec-id': number
  readonly fields: readonly PartitionField[]
}
export interface PartitionField {
  readonly 'source-id': number
  readonly 'field-id': number
  readonly name: string
  readonly transform: string
}
export interface Snapshot {
  readonly id: string
  readonly parentId: string | undefined
  readonly sequenceNumber: number
  readonly timestampMs: number
  readonly manifestList: string
  readonly summary: Readonly<Record<string, string>>
}

/** Snapshots of version 1 have no sequence numbers, which order the positions of a source. */
export function checkFormat({ formatVersion }: Pick<TableMetadata, 'formatVersion'>): void {
  if (formatVersion !== 2)
    throw configError(`the table has format version ${formatVersion}, and only format version 2 is supported: upgrade or rewrite the table`)
}

export function parseMetadata(value: Json | undefined): TableMetadata {
  if (!isRecord(value)) throw invalid('metadata')
  const schemas = value['schemas'] as unknown as Schema[] | undefined
  const schema = schemas?.find((one) => one['schema-id'] === value['current-schema-id'])
  if (schemas === undefined || schema === undefined) throw invalid('current schema')
  const current = digitsOf(value['current-snapshot-id'])
  const snapshots = ((value['snapshots'] ?? []) as JsonObject[]).map(parseSnapshot)
  return {
    formatVersion: Number(value['format-version']),
    uuid: textOf(value['table-uuid']),
    location: textOf(value['location']).replace(/\/$/, ''),
    properties: (value['properties'] ?? {}) as Record<string, string>,
    schema,
    schemas,
    lastColumnId: Number(value['last-column-id']),
    specs: (value['partition-specs'] ?? []) as unknown as PartitionSpec[],
    defaultSpecId: Number(value['default-spec-id'] ?? 0),
    lastSequenceNumber: Number(value['last-sequence-number'] ?? 0),
    // Some catalogs send -1 for none.
    currentSnapshotId: current === undefined || current === '-1' ? undefined : current,
    snapshots: new Map(snapshots.map((snapshot) => [snapshot.id, snapshot])),
  }
}

function parseSnapshot(value: JsonObject): Snapshot {
  return {
    id: digitsOf(value['snapshot-id']) ?? '',
    parentId: digitsOf(value['parent-snapshot-id']),
    sequenceNumber: Number(value['sequence-number'] ?? 0),
    timestampMs: Number(value['timestamp-ms'] ?? 0),
    manifestList: textOf(value['manifest-list']),
    summary: (value['summary'] ?? {}) as Record<string, string>,
  }
}

const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '')

/** Numbers of the catalog were read without rounding. */
const digitsOf = (value: Json | undefined): string | undefined =>
  value === undefined || value === null ? undefined : typeof value === 'object' ? JSON.stringify(value) : String(value)

const invalid = (what: string): ConnectorError =>
  new ConnectorError({ class: 'config', type: 'invalid_data' }, `the catalog's answer has no ${what}`)
