// Compares and prints decimal numbers as text, without doubles, so that 64-bit integers and long fractions keep their value.
import type { RawNumber } from './json.ts'

/** String form of a number: integers as written, 5.0 as 5, 1e3 as 1000. */
export function numberText(value: number | RawNumber): string {
  if (typeof value !== 'number') return plainDecimal(value.rawJSON)
  if (Number.isSafeInteger(value)) return value === 0 ? '0' : String(value)
  const text = String(value)
  return text.includes('e') ? plainDecimal(text) : text
}

const numericPattern = /^[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/

/** A JSON number that may have leading zeros or a plus. */
export const isNumericText = (text: string): boolean => {
  const first = text.charCodeAt(0)
  // Most texts are not numbers: the first character decides.
  return ((first >= 48 && first <= 57) || first === 43 || first === 45) && numericPattern.test(text)
}

/** Unique text per value: no exponent, no redundant zeros. Beyond `digitsMax` digits it stays scientific, but unique. */
export function plainDecimal(text: string): string {
  const { sign, digits, exponent } = parseDecimal(text)
  if (digits === '') return '0'
  const minus = sign < 0 ? '-' : ''
  const point = digits.length + exponent // digits before the point
  if (Math.abs(exponent) + digits.length > digitsMax) return `${minus}${digits}e${exponent}`
  if (exponent >= 0) return `${minus}${digits}${'0'.repeat(exponent)}`
  if (point > 0) return `${minus}${digits.slice(0, point)}.${digits.slice(point)}`
  return `${minus}0.${'0'.repeat(-point)}${digits}`
}

const digitsMax = 1000

/** Negative, zero or positive; exact for all numeric texts. */
export function compareDecimals(left: string, right: string): number {
  const a = parseDecimal(left)
  const b = parseDecimal(right)
  if (a.digits === '' || b.digits === '' || a.sign !== b.sign) return signOf(a) - signOf(b)
  const magnitude = a.digits.length + a.exponent - (b.digits.length + b.exponent)
  if (magnitude !== 0) return magnitude * a.sign
  if (a.digits === b.digits) return 0
  // Same number of digits before the point: compares digit by digit; a prefix is smaller.
  return (a.digits < b.digits ? -1 : 1) * a.sign
}

interface Decimal {
  readonly sign: 1 | -1
  /** Without leading and trailing zeros; empty for zero. */
  readonly digits: string
  /** value = sign × digits × 10^exponent */
  readonly exponent: number
}

const signOf = (value: Decimal): number => (value.digits === '' ? 0 : value.sign)

function parseDecimal(text: string): Decimal {
  const sign = text.startsWith('-') ? -1 : 1
  const start = text.startsWith('-') || text.startsWith('+') ? 1 : 0
  const e = Math.max(text.indexOf('e'), text.indexOf('E'))
  const mantissa = e < 0 ? text.slice(start) : text.slice(start, e)
  const point = mantissa.indexOf('.')
  const all = point < 0 ? mantissa : mantissa.slice(0, point) + mantissa.slice(point + 1)
  const shift = (e < 0 ? 0 : Number(text.slice(e + 1))) - (point < 0 ? 0 : mantissa.length - point - 1)
  const end = endOfDigits(all)
  return { sign, digits: all.slice(startOfDigits(all), end), exponent: shift + all.length - end }
}

function startOfDigits(digits: string): number {
  let start = 0
  while (digits.charCodeAt(start) === zero) start += 1
  return start
}

function endOfDigits(digits: string): number {
  let end = digits.length
  while (end > 0 && digits.charCodeAt(end - 1) === zero) end -= 1
  return end
}

const zero = 48
