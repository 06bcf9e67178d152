// Fits JSON values to columns. Pure. The server would store a value outside the range of its column as another value, without an error:
// integers overflow, decimals and times are cut, null becomes 0, numbers in a time column count as ticks. Such values are rejected here
// or converted to text that the server reads exactly.
import { isRawNumber, isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import { fitsDecimal, fitsInteger, toDigits } from '../column-values.ts'
import { type Column, toColumn } from './table.ts'

/** The value to send, or why it does not fit. */
export type Fitted = { readonly value: Json } | { readonly problem: string }

export function fitValue(column: Column, value: Json): Fitted {
  if (value === null) return column.isNullable || column.hasDefault ? { value } : { problem: 'does not accept null' }
  const kind = /^[A-Za-z]+/.exec(column.base)?.[0] ?? ''
  if (/^U?Int$/.test(kind)) return fitInteger(column.base, value)
  if (kind === 'Decimal') return fitDecimal(column.base, value)
  if (kind === 'Date' || kind === 'DateTime') return fitTime(column.base, value)
  if (kind === 'Bool') return fitBool(value)
  if (kind === 'Float') return fitFloat(column.base, value)
  if (kind === 'Array' && Array.isArray(value)) return fitList(value, () => typeArguments(column.base)[0]!)
  if (kind === 'Map' && isRecord(value)) return fitObject(value, () => typeArguments(column.base)[1]!)
  if (kind === 'Tuple') return fitTuple(column.base, value)
  return { value }
}

/** `Map(String, Array(Int8))`: `String` and `Array(Int8)`. */
function typeArguments(type: string): string[] {
  const inner = type.slice(type.indexOf('(') + 1, -1)
  const found: string[] = []
  let depth = 0
  let start = 0
  let isQuoted = false
  for (let at = 0; at < inner.length; at += 1) {
    const character = inner[at]
    if (character === "'") isQuoted = !isQuoted
    if (isQuoted) continue
    if (character === '(') depth += 1
    if (character === ')') depth -= 1
    if (character !== ',' || depth > 0) continue
    found.push(inner.slice(start, at).trim())
    start = at + 1
  }
  return [...found, inner.slice(start).trim()]
}

const fitInner = (type: string, value: Json): Fitted => fitValue(toColumn({ name: '', type, default_kind: '' }), value)

function fitList(list: readonly Json[], typeAt: (index: number) => string): Fitted {
  const fitted = list.map((value, index) => fitInner(typeAt(index), value))
  const bad = fitted.find((one) => 'problem' in one)
  if (bad !== undefined) return { problem: `has an element that ${bad.problem}` }
  const values = fitted.map((one) => (one as { value: Json }).value)
  return { value: values.every((value, index) => value === list[index]) ? (list as Json) : values }
}

function fitObject(object: JsonObject, typeOf: (key: string) => string | undefined): Fitted {
  const copy: JsonObject = {}
  let isChanged = false
  for (const [key, value] of Object.entries(object)) {
    const type = typeOf(key)
    const fitted = type === undefined ? { value } : fitInner(type, value)
    if ('problem' in fitted) return { problem: `has an element that ${fitted.problem}` }
    isChanged ||= fitted.value !== value
    setKey(copy, key, fitted.value)
  }
  return { value: isChanged ? copy : object }
}

/** `Tuple(a Int8, b String)` has names, `Tuple(Int8, String)` has none. */
function fitTuple(type: string, value: Json): Fitted {
  const parts = typeArguments(type).map((text) => /^(?:`?([A-Za-z_]\w*)`?\s+)?(.+)$/s.exec(text) ?? [text, undefined, text])
  if (Array.isArray(value) && value.length === parts.length) return fitList(value, (index) => parts[index]![2]!)
  return isRecord(value) ? fitObject(value, (key) => parts.find(([, name]) => name === key)?.[2]) : { value }
}

/** A number outside the range would become infinite. */
function fitFloat(type: string, value: Json): Fitted {
  if (typeof value !== 'number' && !isRawNumber(value)) return { value }
  const number = isRawNumber(value) ? Number(value.rawJSON) : value
  return Number.isFinite(type === 'Float32' ? Math.fround(number) : number) ? { value } : { problem: `is outside the range of ${type}` }
}

function fitInteger(type: string, value: Json): Fitted {
  const digits = toDigits(value)
  if (digits === undefined || digits.includes('.')) return { problem: 'is not a whole number' }
  const bits = BigInt(/\d+/.exec(type)?.[0] ?? '64')
  return fitsInteger(BigInt(digits), bits, type.startsWith('U')) ? { value } : { problem: `is outside the range of ${type}` }
}

function fitDecimal(type: string, value: Json): Fitted {
  const digits = toDigits(value)
  if (digits === undefined) return { problem: 'is not a decimal number' }
  return fitsDecimal(digits, type) ? { value } : { problem: `does not fit ${type}` }
}

const fitBool = (value: Json): Fitted =>
  typeof value === 'boolean' || value === 0 || value === 1 || value === 'true' || value === 'false'
    ? { value: value === 'true' ? true : value === 'false' ? false : value }
    : { problem: 'is not a boolean' }

/** Years that the type holds; outside of them the server stores the nearest time. */
const years: Readonly<Record<string, readonly [number, number]>> = {
  Date: [1970, 2148],
  Date32: [1900, 2299],
  DateTime: [1970, 2105],
  DateTime64: [1900, 2261],
}

function fitTime(type: string, value: Json): Fitted {
  const text = typeof value === 'number' ? epochText(value) : value
  if (typeof text !== 'string') return { problem: 'is not a time' }
  const year = Number(/^(\d{4})-\d\d-\d\d(?:$|[T ](?:[01]\d|2[0-3]):[0-5]\d)/.exec(text)?.[1] ?? Number.NaN)
  if (Number.isNaN(year)) return { problem: 'is not a time such as 2026-01-02T03:04:05Z' }
  const [first, last] = years[/^Date(?:Time)?(?:32|64)?/.exec(type)?.[0] ?? ''] ?? [1900, 2261]
  if (year < first || year > last) return { problem: `is outside the range of ${type}` }
  const isDay = type === 'Date' || type === 'Date32'
  return { value: isDay ? text.slice(0, 10) : text }
}

/** Seconds, or from 1e11 on milliseconds, since 1970. */
function epochText(value: number): string | undefined {
  const ms = Math.abs(value) >= 1e11 ? value : value * 1000
  return Number.isFinite(ms) && Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : undefined
}
