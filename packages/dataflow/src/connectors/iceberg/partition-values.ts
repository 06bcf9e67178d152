// Partition values of rows: transforms of column values as the Iceberg specification defines them, and `partitionBy` texts. Pure.
import { ConnectorError } from '../connector.ts'
import { hashBytes } from './hash-bytes.ts'
import { findField, type IcebergType, type PartitionField, parseDecimalType, type StructType } from './schema.ts'
import { floorDivide, type Stored } from './values.ts'

export interface Transform {
  /** Type of the partition value. */
  resultType(source: IcebergType): IcebergType
  apply(value: Stored, source: IcebergType): Stored
}

const dayMicros = 86_400_000_000n

const identity: Transform = { resultType: (source) => source, apply: (value) => value }
const none: Transform = { resultType: (source) => source, apply: () => null }

const period = (resultType: IcebergType, ofDate: (days: number) => number, ofMicros: (micros: bigint) => number): Transform => ({
  resultType: () => resultType,
  apply: (value, source) => (source === 'date' ? ofDate(Number(value)) : ofMicros(value as bigint)),
})
const dayOf = (micros: bigint): number => Number(floorDivide(micros, dayMicros))
const yearOf = (days: number): number => new Date(days * 86_400_000).getUTCFullYear() - 1970
const monthOf = (days: number): number => yearOf(days) * 12 + new Date(days * 86_400_000).getUTCMonth()

const plain: Readonly<Record<string, Transform | undefined>> = {
  identity,
  void: none,
  year: period('int', yearOf, (micros) => yearOf(dayOf(micros))),
  month: period('int', monthOf, (micros) => monthOf(dayOf(micros))),
  day: period('date', (days) => days, dayOf),
  hour: period(
    'int',
    (days) => days * 24,
    (micros) => Number(floorDivide(micros, 3_600_000_000n)),
  ),
}

/** Undefined for a transform that this version does not know. */
export function parseTransform(text: string): Transform | undefined {
  const [, name, argument] = /^(bucket|truncate)\[(\d+)\]$/.exec(text) ?? []
  if (name === undefined) return plain[text]
  const width = Number(argument)
  if (width < 1) return undefined
  if (name === 'bucket')
    return { resultType: () => 'int', apply: (value, source) => (value === null ? null : bucketOf(value, source, width)) }
  return { resultType: (source) => source, apply: (value, source) => (value === null ? null : truncate(value, source, width)) }
}

const bucketOf = (value: Stored, source: IcebergType, count: number): number => (hashBytes(hashedBytes(value, source)) & 0x7fffffff) % count

function hashedBytes(value: Stored, source: IcebergType): Uint8Array {
  if (typeof source === 'string' && parseDecimalType(source) !== undefined) return minimalBytes(value as bigint)
  if (typeof value === 'string') return Buffer.from(value)
  if (value instanceof Uint8Array) return value
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt(value as number | bigint))
  return bytes
}

/** Big-endian two's complement with as few bytes as possible. */
export function minimalBytes(value: bigint): Buffer {
  let length = 1
  while (BigInt.asIntN(length * 8, value) !== value) length += 1
  const hex = BigInt.asUintN(length * 8, value).toString(16)
  return Buffer.from(hex.padStart(length * 2, '0'), 'hex')
}

function truncate(value: Stored, source: IcebergType, width: number): Stored {
  if (typeof value === 'string') return Array.from(value).slice(0, width).join('')
  if (value instanceof Uint8Array) return value.subarray(0, width)
  if (source === 'int') return Number(value) - (((Number(value) % width) + width) % width)
  const number = value as bigint
  return floorDivide(number, BigInt(width)) * BigInt(width)
}

/** Types that `bucket` and the periods accept; the others accept every type that is not nested. */
function accepts(transform: string, type: IcebergType): boolean {
  if (typeof type !== 'string') return false
  if (/^(year|month|day)$/.test(transform)) return /^(date|timestamp|timestamptz)$/.test(type)
  if (transform === 'hour') return /^timestamp(tz)?$/.test(type)
  if (transform.startsWith('bucket')) return !/^(boolean|float|double)$/.test(type)
  return transform.startsWith('truncate') ? /^(int|long|string|binary|decimal.*)$/.test(type) : true
}

/** Fields of a partition spec from texts such as `day(ts)`, `bucket(16,id)`, `truncate(4, name)` or a column. */
export function parsePartitionBy(texts: readonly string[], schema: StructType): PartitionField[] {
  return texts.map((text, index) => {
    const [, name, width, inner] = /^\s*(?:([a-z]+)\s*\(\s*(?:(\d+)\s*,\s*)?([^()]+?)\s*\))\s*$/.exec(text) ?? []
    const column = inner ?? text.trim()
    const transform = name === undefined ? 'identity' : width === undefined ? name : `${name}[${width}]`
    const field = findField(schema, column)
    if (field === undefined) throw refuse(text, `there is no column ${column}`)
    if (parseTransform(transform) === undefined || transform === 'void')
      throw refuse(text, 'use a column, or year, month, day, hour, bucket(n, …) or truncate(n, …) of one')
    if (!accepts(transform, field.type)) throw refuse(text, `${transform} does not accept the type of column ${column}`)
    const suffix = name === undefined ? '' : `_${name === 'truncate' ? 'trunc' : name}`
    return { 'source-id': field.id, 'field-id': 1000 + index, name: `${column}${suffix}`, transform }
  })
}

const refuse = (text: string, reason: string): ConnectorError =>
  new ConnectorError({ class: 'config', type: 'unknown' }, `partitionBy ${text}: ${reason}`)

export interface PartitionColumn {
  readonly field: PartitionField
  /** Index of the source column in the schema. */
  readonly columnIndex: number
  readonly sourceType: IcebergType
  readonly resultType: IcebergType
  readonly transform: Transform
}

/** How the rows of a table are partitioned. Throws class config for a transform that this version does not know. */
export function toPartitionColumns(fields: readonly PartitionField[], schema: StructType): PartitionColumn[] {
  return fields.map((field) => {
    const columnIndex = schema.fields.findIndex(({ id }) => id === field['source-id'])
    const transform = parseTransform(field.transform)
    const source = schema.fields[columnIndex]
    if (transform === undefined || source === undefined)
      throw new ConnectorError(
        { class: 'config', type: 'unknown' },
        `the table is partitioned by ${field.transform} of field ${field['source-id']}, which this version cannot write`,
      )
    return { field, columnIndex, sourceType: source.type, resultType: transform.resultType(source.type), transform }
  })
}

export const partitionTuple = (columns: readonly PartitionColumn[], row: readonly Stored[]): Stored[] =>
  columns.map(({ columnIndex, sourceType, transform }) => {
    const value = row[columnIndex] ?? null
    return value === null ? null : transform.apply(value, sourceType)
  })

/** Equal for equal tuples. */
export const tupleKey = (tuple: readonly Stored[]): string =>
  JSON.stringify(tuple, (_key, value: unknown) =>
    typeof value === 'bigint' ? `${value}n` : value instanceof Uint8Array ? [...value] : value,
  )
