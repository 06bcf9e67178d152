// What table sinks share: types of new columns derived from values, and whether digits fit a column. Pure.
import { parseInstant } from '@brokkr/contract/dataflow/language/instant.ts'
import { isRawNumber, type Json, type JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { Rec } from './connector.ts'

export type InferredType = 'boolean' | 'int64' | 'float64' | 'time' | 'text'

/** One type for all values of a column; text if they differ, are all null, or if no number type holds all of them exactly. */
export function inferType(values: readonly Json[]): InferredType {
  const types = new Set(values.filter((value) => value !== null).map(inferOne))
  if (types.size === 2 && types.has('int64') && types.has('float64')) return values.every(isDouble) ? 'float64' : 'text'
  return types.size === 1 ? [...types][0]! : 'text'
}

/** A number that neither an integer of 64 bits nor a double holds exactly is stored as text. */
function inferOne(value: Json): InferredType {
  if (typeof value === 'boolean') return 'boolean'
  if (typeof value === 'number') return Number.isInteger(value) && isInt64(String(value)) ? 'int64' : 'float64'
  if (isRawNumber(value)) return isInt64(value.rawJSON) ? 'int64' : 'text'
  return typeof value === 'string' && parseInstant(value) !== undefined ? 'time' : 'text'
}

const isDouble = (value: Json): boolean =>
  value === null || (typeof value === 'number' && (!Number.isInteger(value) || Number.isSafeInteger(value)))
const isInt64 = (digits: string): boolean => /^-?\d{1,19}$/.test(digits) && BigInt.asIntN(64, BigInt(digits)) === BigInt(digits)

/** Digits of a number or of a numeric text; undefined for anything else. */
export function toDigits(value: Json): string | undefined {
  const text = isRawNumber(value) ? value.rawJSON : typeof value === 'number' || typeof value === 'string' ? String(value) : undefined
  return text !== undefined && /^-?\d+(\.\d+)?$/.test(text) ? text : undefined
}

export function fitsInteger(number: bigint, bits: bigint, isUnsigned: boolean): boolean {
  const [low, high] = isUnsigned ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n]
  return number >= low && number <= high
}

/** `type` ends with precision and scale: `Decimal(10, 2)`. */
export function fitsDecimal(digits: string, type: string): boolean {
  const [precision = 38, scale = 0] = (/\((.*)\)/.exec(type)?.[1] ?? '').split(',').map(Number)
  const [whole = '', fraction = ''] = digits.replace('-', '').split('.')
  return whole.replace(/^0+/, '').length <= precision - scale && fraction.replace(/0+$/, '').length <= scale
}

/** Keys of the records without a column, each with its values. */
export function collectFields(
  records: readonly Rec[],
  columns: ReadonlyMap<string, unknown>,
  toFields: (record: Rec, index: number) => JsonObject,
): Map<string, Json[]> {
  const fields = new Map<string, Json[]>()
  for (const [index, record] of records.entries())
    for (const [key, value] of Object.entries(toFields(record, index))) {
      if (columns.has(key)) continue
      const values = fields.get(key)
      if (values === undefined) fields.set(key, [value])
      else values.push(value)
    }
  return fields
}
