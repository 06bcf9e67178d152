// Builds a Parquet file from rows, with the ids of the table's fields, and what a manifest says about it: counts and bounds. Pure.
import { parquetWriteBuffer, type SchemaElement } from 'hyparquet-writer'
import { minimalBytes } from './partition-values.ts'
import { type Field, type IcebergType, parseDecimalType, parseFixedType, type StructType } from './schema.ts'
import type { Stored } from './values.ts'

export interface BuiltFile {
  readonly bytes: Uint8Array
  readonly recordCount: number
  readonly metrics: Metrics
}
/** By the id of the field. Nested columns have none. */
export interface Metrics {
  readonly valueCounts: ReadonlyMap<number, bigint>
  readonly nullCounts: ReadonlyMap<number, bigint>
  readonly lowerBounds: ReadonlyMap<number, Uint8Array>
  readonly upperBounds: ReadonlyMap<number, Uint8Array>
}

const rowGroupRows = 100_000
/** Texts and bytes are cut to so many characters for a bound. */
const boundLength = 16

/** `rows` have the values of the schema's columns in their order. */
export function buildFile(schema: StructType, rows: readonly (readonly Stored[])[]): BuiltFile {
  const columns = schema.fields.map((field, index) => ({ field, data: rows.map((row) => row[index] ?? null) }))
  const bytes = new Uint8Array(
    parquetWriteBuffer({
      schema: toParquetSchema(schema),
      columnData: columns.map(({ field, data }) => ({ name: field.name, data: data as unknown[] })),
      rowGroupSize: rowGroupRows,
      createdBy: 'brokkr',
    }),
  )
  return { bytes, recordCount: rows.length, metrics: toMetrics(columns) }
}

function toParquetSchema(schema: StructType): SchemaElement[] {
  return [{ name: 'table', num_children: schema.fields.length }, ...schema.fields.flatMap(toElements)]
}

function toElements({ id, name, required, type }: Field): SchemaElement[] {
  const base = { name, field_id: id, repetition_type: required ? ('REQUIRED' as const) : ('OPTIONAL' as const) }
  if (typeof type === 'string') return [{ ...base, ...primitive(type) }]
  if (type.type === 'struct') return [{ ...base, num_children: type.fields.length }, ...type.fields.flatMap(toElements)]
  const child = (childId: number, childName: string, isRequired: boolean, childType: IcebergType): SchemaElement[] =>
    toElements({ id: childId, name: childName, required: isRequired, type: childType })
  if (type.type === 'list')
    return [
      { ...base, converted_type: 'LIST', num_children: 1 },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      ...child(type['element-id'], 'element', type['element-required'], type.element),
    ]
  return [
    { ...base, converted_type: 'MAP', num_children: 1 },
    { name: 'key_value', repetition_type: 'REPEATED', num_children: 2 },
    ...child(type['key-id'], 'key', true, type.key),
    ...child(type['value-id'], 'value', type['value-required'], type.value),
  ]
}

type Primitive = Omit<SchemaElement, 'name'>
const timestamp = (isAdjustedToUTC: boolean): Primitive => ({
  type: 'INT64',
  logical_type: { type: 'TIMESTAMP', isAdjustedToUTC, unit: 'MICROS' },
})
const primitives: Readonly<Record<string, Primitive | undefined>> = {
  boolean: { type: 'BOOLEAN' },
  int: { type: 'INT32' },
  long: { type: 'INT64' },
  float: { type: 'FLOAT' },
  double: { type: 'DOUBLE' },
  string: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
  binary: { type: 'BYTE_ARRAY' },
  uuid: { type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16, logical_type: { type: 'UUID' } },
  date: { type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } },
  time: { type: 'INT64', converted_type: 'TIME_MICROS', logical_type: { type: 'TIME', isAdjustedToUTC: false, unit: 'MICROS' } },
  timestamp: timestamp(false),
  timestamptz: { ...timestamp(true), converted_type: 'TIMESTAMP_MICROS' },
}

function primitive(type: string): Primitive {
  const found = primitives[type]
  if (found !== undefined) return found
  const decimal = parseDecimalType(type)
  if (decimal !== undefined) {
    const { precision, scale } = decimal
    const common = { converted_type: 'DECIMAL' as const, precision, scale, logical_type: { type: 'DECIMAL' as const, precision, scale } }
    if (precision <= 9) return { type: 'INT32', ...common }
    return precision <= 18
      ? { type: 'INT64', ...common }
      : { type: 'FIXED_LEN_BYTE_ARRAY', type_length: decimalBytes(precision), ...common }
  }
  return { type: 'FIXED_LEN_BYTE_ARRAY', type_length: parseFixedType(type) ?? 0 }
}

/** Bytes of the largest unscaled value. */
export const decimalBytes = (precision: number): number => minimalBytes(10n ** BigInt(precision) - 1n).length

function toMetrics(columns: readonly { field: Field; data: readonly Stored[] }[]): Metrics {
  const metrics = {
    valueCounts: new Map<number, bigint>(),
    nullCounts: new Map<number, bigint>(),
    lowerBounds: new Map<number, Uint8Array>(),
    upperBounds: new Map<number, Uint8Array>(),
  }
  for (const { field, data } of columns) {
    const { id, type } = field
    if (typeof type !== 'string') continue
    metrics.valueCounts.set(id, BigInt(data.length))
    metrics.nullCounts.set(id, BigInt(data.reduce<number>((count, value) => count + (value === null ? 1 : 0), 0)))
    const range = rangeOf(data)
    if (range === undefined) continue
    metrics.lowerBounds.set(id, toBound(type, range.low, false)!)
    const upper = toBound(type, range.high, true)
    if (upper !== undefined) metrics.upperBounds.set(id, upper)
  }
  return metrics
}

function rangeOf(data: readonly Stored[]): { low: Stored; high: Stored } | undefined {
  let low: Stored = null
  let high: Stored = null
  for (const value of data) {
    if (value === null) continue
    if (low === null || isLess(value, low)) low = value
    if (high === null || isLess(high, value)) high = value
  }
  return low === null ? undefined : { low, high }
}

/** Texts in the order of their UTF-8 bytes. */
function isLess(left: Stored, right: Stored): boolean {
  if (typeof left === 'string' && typeof right === 'string') {
    // Units below the surrogates are ordered like bytes.
    return Buffer.compare(Buffer.from(left), Buffer.from(right)) < 0
  }
  if (left instanceof Uint8Array && right instanceof Uint8Array) return Buffer.compare(left, right) < 0
  return (left as number) < (right as number)
}

/** A bound in the serialized form of its type; undefined if a cut text has no text above it. */
export function toBound(type: string, value: Stored, isUpper: boolean): Uint8Array | undefined {
  if (typeof value === 'string') return boundOfText(value, isUpper)
  if (value instanceof Uint8Array) return boundOfBytes(value, type, isUpper)
  if (parseDecimalType(type) !== undefined) return minimalBytes(value as bigint)
  if (typeof value === 'boolean') return Buffer.from([value ? 1 : 0])
  const bytes = Buffer.alloc(type === 'int' || type === 'date' || type === 'float' ? 4 : 8)
  if (type === 'float') bytes.writeFloatLE(value as number)
  else if (type === 'double') bytes.writeDoubleLE(value as number)
  else if (bytes.length === 4) bytes.writeInt32LE(Number(value))
  else bytes.writeBigInt64LE(value as bigint)
  return bytes
}

function boundOfText(value: string, isUpper: boolean): Uint8Array | undefined {
  const points = Array.from(value)
  if (points.length <= boundLength) return Buffer.from(value)
  const cut = points.slice(0, boundLength)
  if (!isUpper) return Buffer.from(cut.join(''))
  while (cut.length > 0) {
    const last = cut.pop()!.codePointAt(0)!
    const next = last === 0xd7ff ? 0xe000 : last + 1
    if (next <= 0x10ffff) return Buffer.from([...cut, String.fromCodePoint(next)].join(''))
  }
  return undefined
}

function boundOfBytes(value: Uint8Array, type: string, isUpper: boolean): Uint8Array | undefined {
  if (type !== 'binary' || value.length <= boundLength) return value
  const cut = Buffer.from(value.subarray(0, boundLength))
  if (!isUpper) return cut
  for (let at = cut.length - 1; at >= 0; at -= 1) {
    if (cut[at] === 0xff) continue
    cut[at]! += 1
    return cut.subarray(0, at + 1)
  }
  return undefined
}
