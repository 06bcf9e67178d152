// Filters of any value: text forms and conversion to integers.
import { booleanArgument, countArgument, failInput, integerArgument } from './arguments.ts'
import type { Filter } from './builtins.ts'
import { encodeJson } from './encode-json.ts'
import { trimEnd, trimStart } from './split-template.ts'
import { RenderError } from './template-errors.ts'
import { printedLength, printValue } from './values.ts'

export const valueFilters = {
  as_str: (budget, value) => {
    budget.text(printedLength(value))
    return printValue(value)
  },
  json_encode: (budget, value, args) => encodeJson(budget, value, booleanArgument(args, 'pretty')),
  int: (_budget, value, args) => {
    const fallback = integerArgument(args, 'default', 0n)
    const base = countArgument(args, 'base', 10n)
    if (base < 2 || base > 36) throw new RenderError('the filter int needs base=an integer from 2 to 36')
    if (typeof value === 'bigint') return value > integerMax ? integerMax : value
    if (typeof value === 'number') return toInteger(value)
    return typeof value === 'string'
      ? parseInteger(trimEnd(trimStart(value)), base, fallback)
      : failInput(args.filter, 'a text or a number', value)
  },
} satisfies Record<string, Filter>

const [integerMin, integerMax] = [-(2n ** 63n), 2n ** 63n - 1n]
const prefixes: Readonly<Record<number, string>> = { 2: '0b', 8: '0o', 16: '0x' }

function parseInteger(text: string, base: number, fallback: bigint): bigint {
  const prefix = prefixes[base]
  const digits = prefix !== undefined && text.startsWith(prefix) ? text.slice(prefix.length) : text
  const integer = parseDigits(digits, base)
  if (integer !== null) return integer
  if (digits.includes('.') && /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(digits)) return toInteger(Number(digits))
  return fallback
}

/** Null: not an integer of this base, or too large. No 64-bit integer has more than 64 digits besides leading zeros. */
function parseDigits(text: string, base: number): bigint | null {
  const match = /^([+-]?)0*([0-9a-zA-Z]*)$/.exec(text)
  const digits = match?.[2] ?? ''
  if (match === null || digits.length > 64 || !/[0-9a-zA-Z]/.test(text)) return null
  let value = 0n
  for (const digit of digits) {
    const worth = Number.parseInt(digit, 36)
    if (worth >= base) return null
    value = value * BigInt(base) + BigInt(worth)
  }
  const signed = match[1] === '-' ? -value : value
  return signed < integerMin || signed > integerMax ? null : signed
}

/** Toward zero; what lies outside the range becomes its nearest end. */
function toInteger(value: number): bigint {
  const whole = BigInt(Math.trunc(Number.isFinite(value) ? value : 0))
  if (whole > integerMax) return integerMax
  return whole < integerMin ? integerMin : whole
}
