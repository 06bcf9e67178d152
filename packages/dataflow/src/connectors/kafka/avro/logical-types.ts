// Maps Avro's logical types to JSON: decimals are numbers, dates and times are RFC3339 text, in UTC if they are instants.

import { isNumericText, plainDecimal } from '@brokkr/contract/dataflow/language/decimal.ts'
import { parseInstant } from '@brokkr/contract/dataflow/language/instant.ts'
import { isRawNumber, type Json, rawNumber } from '@brokkr/contract/dataflow/language/json.ts'
import { AvroMismatch, integerJson, toBigint } from './numbers.ts'

export interface LogicalSchema {
  readonly [key: string]: unknown
}

const perSecond: Readonly<Record<string, bigint>> = { millis: 1_000n, micros: 1_000_000n, nanos: 1_000_000_000n }
const daySeconds = 86_400n

/** Logical types with another form than their stored type; uuid is text already, others stay as stored. */
export function isLogical({ type, logicalType }: LogicalSchema): boolean {
  if (logicalType === 'decimal') return type === 'bytes' || type === 'fixed'
  if (logicalType === 'date') return type === 'int'
  const [kind, unit] = parseTimeType(logicalType)
  return kind === 'time' ? type === (unit === 'millis' ? 'int' : 'long') : kind !== undefined && type === 'long'
}

export function fromLogical(schema: LogicalSchema, value: unknown): Json {
  if (schema['logicalType'] === 'decimal') return decimalJson(value as Buffer, Number(schema['scale'] ?? 0))
  const number = BigInt(value as number)
  if (schema['logicalType'] === 'date') return formatSeconds(number * daySeconds)?.slice(0, 10) ?? integerJson(number)
  const [kind, unit] = parseTimeType(schema['logicalType'])
  const units = perSecond[unit!]!
  const [seconds, fraction] = [floorDiv(number, units), number - floorDiv(number, units) * units]
  const text = formatSeconds(seconds)
  if (text === undefined) return integerJson(number)
  const full = `${text}${fractionText(fraction, units)}`
  return kind === 'time' ? full.slice(11) : kind === 'timestamp' ? `${full}Z` : full
}

/** Accepts the stored number as well as its text. */
export function toLogical(schema: LogicalSchema, json: Json, path: string): unknown {
  const { logicalType, type } = schema as { logicalType: string; type: string }
  if (logicalType === 'decimal') return decimalBytes(schema, json, path)
  const make = (value: bigint): unknown => (type === 'int' ? Number(value) : value)
  if (typeof json !== 'string') return make(toBigint(json, type === 'int' ? 32n : 64n, path, logicalType))
  if (logicalType === 'date') return make(instantUnits(`${json}T00:00:00Z`, 1n, path, logicalType) / daySeconds)
  const [kind, unit] = parseTimeType(logicalType)
  const text = kind === 'time' ? `1970-01-01T${json}Z` : kind === 'timestamp' ? json : `${json}Z`
  return make(instantUnits(text, perSecond[unit!]!, path, logicalType))
}

type Kind = 'time' | 'timestamp' | 'local-timestamp'

function parseTimeType(logicalType: unknown): [Kind | undefined, string | undefined] {
  const match = /^(time|timestamp|local-timestamp)-(millis|micros|nanos)$/.exec(String(logicalType))
  return [match?.[1] as Kind | undefined, match?.[2]]
}

const floorDiv = (value: bigint, by: bigint): bigint => (value < 0n && value % by !== 0n ? value / by - 1n : value / by)

/** Without zone and fraction; undefined for years outside of RFC3339. */
function formatSeconds(seconds: bigint): string | undefined {
  const date = new Date(Number(seconds) * 1000)
  const year = date.getUTCFullYear()
  return year >= 0 && year <= 9999 ? date.toISOString().slice(0, 19) : undefined
}

/** Fraction in steps of three digits; empty if zero. */
function fractionText(fraction: bigint, units: bigint): string {
  if (fraction === 0n) return ''
  const digits = fraction.toString().padStart(units.toString().length - 1, '0')
  return `.${digits.replace(/(000)+$/, '')}`
}

function instantUnits(text: string, units: bigint, path: string, type: string): bigint {
  const instant = parseInstant(text)
  if (instant === undefined) throw new AvroMismatch(path, type)
  const width = units.toString().length - 1
  // Digits beyond the type's precision are truncated.
  const fraction = instant.fraction.slice(0, width).padEnd(width, '0')
  return BigInt(instant.seconds) * units + BigInt(fraction === '' ? 0 : fraction)
}

function decimalJson(bytes: Buffer, scale: number): Json {
  const unscaled = bytes.length === 0 ? 0n : BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString('hex')}`))
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0')
  const whole = scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`
  const text = `${unscaled < 0n ? '-' : ''}${whole}`
  return String(Number(text)) === text ? Number(text) : rawNumber(text)
}

function decimalBytes(schema: LogicalSchema, json: Json, path: string): Buffer {
  const type = `decimal(${Number(schema['precision'])}, ${Number(schema['scale'] ?? 0)})`
  const text = typeof json === 'number' ? String(json) : isRawNumber(json) ? json.rawJSON : json
  if (typeof text !== 'string' || !isNumericText(text)) throw new AvroMismatch(path, type)
  const [whole = '0', fraction = ''] = plainDecimal(text).split('.')
  const scale = Number(schema['scale'] ?? 0)
  if (fraction.length > scale || whole.includes('e')) throw new AvroMismatch(path, type)
  const unscaled = BigInt(`${whole}${fraction.padEnd(scale, '0')}`)
  if (unscaled.toString().replace('-', '').length > Number(schema['precision'] ?? 0)) throw new AvroMismatch(path, type)
  return twosComplement(unscaled, schema['type'] === 'fixed' ? Number(schema['size']) : undefined, path, type)
}

function twosComplement(value: bigint, size: number | undefined, path: string, type: string): Buffer {
  let length = 1
  while (BigInt.asIntN(length * 8, value) !== value) length += 1
  if (size !== undefined && length > size) throw new AvroMismatch(path, type)
  const bytes = size ?? length
  return Buffer.from(
    BigInt.asUintN(bytes * 8, value)
      .toString(16)
      .padStart(bytes * 2, '0'),
    'hex',
  )
}
