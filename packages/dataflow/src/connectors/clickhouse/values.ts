// Fits JSON values to columns. Pure. The server would store a value outside the range of its column as another value, without an error:
// integers overflow, decimals and times are cut, null becomes 0, numbers in a time column count as ticks. Such values are rejected here
// or converted to text that the server reads exactly.
import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import { fitsDecimal, fitsInteger, toDigits } from '../column-values.ts'
import type { Column } from './table.ts'

/** The value to send, or why it does not fit. */
export type Fitted = { readonly value: Json } | { readonly problem: string }

export function fitValue(column: Column, value: Json): Fitted {
  if (value === null) return column.isNullable || column.hasDefault ? { value } : { problem: 'does not accept null' }
  const kind = /^[A-Za-z]+/.exec(column.base)?.[0] ?? ''
  if (/^U?Int$/.test(kind)) return fitInteger(column.base, value)
  if (kind === 'Decimal') return fitDecimal(column.base, value)
  if (kind === 'Date' || kind === 'DateTime') return fitTime(column.base, value)
  if (kind === 'Bool') return fitBool(value)
  return { value }
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
  const year = Number(/^(\d{4})-\d\d-\d\d(?:$|[T ]\d\d:\d\d)/.exec(text)?.[1] ?? Number.NaN)
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
