// Comparisons of conditions and queries, compiled per literal. They never throw: values that cannot be compared yield false.
import { compareDecimals, isNumericText, numberText, plainDecimal } from './decimal.ts'
import { compareInstants, parseInstant } from './instant.ts'
import type { Json } from './json.ts'
import type { Literal } from './literal.ts'
import { stringForm } from './string-form.ts'

export type Test = (value: Json | undefined) => boolean

export function compileCompare(operator: '==' | '!=' | '<' | '<=' | '>' | '>=', literal: Literal): Test {
  if (operator === '==') return equals(literal)
  if (operator === '!=') {
    const isEqual = equals(literal)
    return (value) => value !== undefined && !isEqual(value)
  }
  return ordered(holds[operator], literalForm(literal), literal)
}

/** One of several. */
export function compileIn(literals: readonly Literal[]): Test {
  const forms = new Set(literals.filter((literal) => literal.kind !== 'null').map(literalForm))
  const hasNull = literals.some((literal) => literal.kind === 'null')
  return (value) => {
    if (typeof value === 'string') return forms.has(value)
    if (value === undefined) return false
    return (value === null && hasNull) || forms.has(stringForm(value))
  }
}

const literalForm = (literal: Literal): string => {
  if (literal.kind === 'null') return ''
  if (literal.kind === 'boolean') return String(literal.value)
  return literal.kind === 'number' ? plainDecimal(literal.text) : literal.text
}

/** Compares string forms; the bare literal null matches only JSON null. */
function equals(literal: Literal): Test {
  if (literal.kind === 'null') return (value) => value === null
  const form = literalForm(literal)
  const number = parseDouble(form)
  return (value) => {
    if (typeof value === 'string') return value === form
    if (typeof value === 'number' && number !== undefined) return value === number
    return value !== undefined && stringForm(value) === form
  }
}

/** The double with this string form, if there is exactly one. */
function parseDouble(form: string): number | undefined {
  const number = isNumericText(form) ? Number(form) : Number.NaN
  return Number.isFinite(number) && numberText(number) === form ? number : undefined
}

const holds = {
  '<': (order: number) => order < 0,
  '<=': (order: number) => order <= 0,
  '>': (order: number) => order > 0,
  '>=': (order: number) => order >= 0,
} as const

/** Compares numbers if both are numeric, instants if both are RFC3339, else text by code point; missing or null: false. */
function ordered(isOrdered: (order: number) => boolean, form: string, literal: Literal): Test {
  const isNumeric = isNumericText(form)
  const double = isNumeric ? parseDouble(plainDecimal(form)) : undefined
  const instant = isNumeric || literal.kind === 'null' ? undefined : parseInstant(form)
  return (value) => {
    if (value === undefined || value === null) return false
    if (typeof value === 'number' && double !== undefined) return isOrdered(value - double)
    const text = stringForm(value)
    if (isNumeric && isNumericText(text)) return isOrdered(compareNumeric(text, form, double))
    const time = instant === undefined ? undefined : parseInstant(text)
    return isOrdered(time === undefined ? compareCodePoints(text, form) : compareInstants(time, instant!))
  }
}

/** Fifteen digits fit a double; beyond that only the texts are exact. */
const compareNumeric = (text: string, form: string, double: number | undefined): number =>
  double !== undefined && text.length <= 15 ? Number(text) - double : compareDecimals(text, form)

/** UTF-16 order puts characters beyond U+FFFF before those from U+E000 on; code point order does not. */
function compareCodePoints(left: string, right: string): number {
  const length = Math.min(left.length, right.length)
  for (let i = 0; i < length; i += 1) {
    const a = left.charCodeAt(i)
    const b = right.charCodeAt(i)
    if (a !== b) return isSurrogate(a) === isSurrogate(b) ? a - b : isSurrogate(a) ? 1 : -1
  }
  return left.length - right.length
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff
