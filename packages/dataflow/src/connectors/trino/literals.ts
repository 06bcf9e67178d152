// Prints JSON values as SQL literals of a column's type. Pure. A value that does not fit is reported, never changed to another one.

import { parseInstant } from '@brokkr/contract/dataflow/language/instant.ts'
import { isRawNumber, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import { fitsDecimal, fitsInteger, toDigits } from '../column-values.ts'
import { quoteText } from './sql.ts'

export interface Column {
  readonly name: string
  /** As the server prints it: `decimal(10,2)`, `timestamp(6) with time zone`. */
  readonly type: string
  readonly isNullable: boolean
}
export type Literal = { readonly sql: string } | { readonly problem: string }

export function toLiteral(column: Column, value: Json | undefined): Literal {
  const { type } = column
  if (value === undefined || value === null)
    return column.isNullable ? { sql: `CAST(NULL AS ${type})` } : { problem: 'does not accept null' }
  const base = /^[a-z ]+/.exec(type)?.[0].trim() ?? type
  const print = printers[base]
  return print === undefined ? { problem: `has the type ${type}, which cannot be written` } : print(value, type)
}

const integers: Readonly<Record<string, bigint>> = { tinyint: 8n, smallint: 16n, integer: 32n, bigint: 64n }

function printInteger(value: Json, type: string): Literal {
  const digits = toDigits(value)
  if (digits === undefined || digits.includes('.')) return { problem: 'is not a whole number' }
  const bits = integers[type] ?? 64n
  const number = BigInt(digits)
  if (!fitsInteger(number, bits, false)) return { problem: `is outside the range of ${type}` }
  return { sql: `${type} '${number}'` }
}

function printFloat(value: Json, type: string): Literal {
  const text = isRawNumber(value) ? value.rawJSON : typeof value === 'number' || typeof value === 'string' ? String(value) : ''
  const denormal = /^(-?)(nan|inf)(?:inity)?$/i.exec(text)
  if (denormal !== null) return { sql: `${type} '${denormal[2]!.toLowerCase() === 'nan' ? 'NaN' : `${denormal[1]}Infinity`}'` }
  if (!/^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) || !Number.isFinite(Number(text))) return { problem: 'is not a number' }
  if (type === 'real' && !Number.isFinite(Math.fround(Number(text)))) return { problem: 'is outside the range of real' }
  return { sql: `${type} '${text}'` }
}

function printDecimal(value: Json, type: string): Literal {
  const digits = toDigits(value)
  if (digits === undefined) return { problem: 'is not a decimal number' }
  return fitsDecimal(digits, type) ? { sql: `CAST('${digits}' AS ${type})` } : { problem: `does not fit ${type}` }
}

/** Anything has a text; one that is longer than its column is rejected, because the server would cut it. */
function printText(value: Json, type: string): Literal {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const max = Number(/\((\d+)\)/.exec(type)?.[1] ?? Number.POSITIVE_INFINITY)
  return countCodePoints(text) > max ? { problem: `is longer than ${type}` } : { sql: `CAST(${quoteText(text)} AS ${type})` }
}

/** The server counts code points, not UTF-16 units. */
function countCodePoints(text: string): number {
  let count = 0
  for (const _point of text) count += 1
  return count
}

const printBoolean = (value: Json): Literal => {
  const text =
    value === true || value === 'true' || value === 1 ? 'TRUE' : value === false || value === 'false' || value === 0 ? 'FALSE' : ''
  return text === '' ? { problem: 'is not a boolean' } : { sql: text }
}

const naive = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?$/

/** Seconds since 1970 and digits of the fraction. Numbers are seconds, from 1e11 on milliseconds; a text without a zone is taken as it
 *  stands. */
function toInstant(value: Json): { seconds: number; fraction: string } | undefined {
  if (typeof value === 'number') {
    const ms = Math.abs(value) >= 1e11 ? value : value * 1000
    const wholeMs = Math.round(ms)
    const seconds = Math.floor(wholeMs / 1000)
    return Number.isSafeInteger(wholeMs) ? { seconds, fraction: String(wholeMs - seconds * 1000).padStart(3, '0') } : undefined
  }
  if (typeof value !== 'string') return undefined
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction] = naive.exec(value) ?? []
  if (year === undefined) return parseInstant(value)
  return parseInstant(`${year}-${month}-${day}T${hour}:${minute}:${second}${fraction === undefined ? '' : `.${fraction}`}Z`)
}

/** Six digits of a fraction at most. */
function printTimestamp(value: Json, type: string): Literal {
  const instant = toInstant(value)
  const date = instant === undefined ? undefined : new Date(instant.seconds * 1000)
  if (instant === undefined || date === undefined || Number.isNaN(date.getTime())) return { problem: 'is not a time' }
  const year = date.getUTCFullYear()
  if (year < 1 || year > 9999) return { problem: `is outside the range of ${type}` }
  const precision = Math.min(6, Number(/\((\d+)\)/.exec(type)?.[1] ?? 3))
  const fraction = instant.fraction.slice(0, precision)
  const text = `${date.toISOString().slice(0, 19).replace('T', ' ')}${fraction === '' ? '' : `.${fraction}`}`
  return { sql: `TIMESTAMP '${text}${type.endsWith('with time zone') ? ' UTC' : ''}'` }
}

function printDate(value: Json): Literal {
  const instant = toInstant(value)
  if (instant === undefined || Number.isNaN(new Date(instant.seconds * 1000).getTime())) return { problem: 'is not a date' }
  const isText = typeof value === 'string'
  return { sql: `DATE '${isText ? value.slice(0, 10) : new Date(instant.seconds * 1000).toISOString().slice(0, 10)}'` }
}

const printMatching =
  (pattern: RegExp, what: string, toSql: (text: string, type: string) => string) =>
  (value: Json, type: string): Literal =>
    typeof value === 'string' && pattern.test(value) ? { sql: toSql(value, type) } : { problem: `is not ${what}` }

const printJson = (value: Json): Literal => ({ sql: `JSON ${quoteText(JSON.stringify(value))}` })

const printComposite = (value: Json, type: string): Literal =>
  typeof value === 'object'
    ? { sql: `CAST(JSON ${quoteText(JSON.stringify(value))} AS ${type})` }
    : { problem: `is not a value of ${type}` }

const printers: Readonly<Record<string, (value: Json, type: string) => Literal>> = {
  boolean: printBoolean,
  tinyint: printInteger,
  smallint: printInteger,
  integer: printInteger,
  bigint: printInteger,
  real: printFloat,
  double: printFloat,
  decimal: printDecimal,
  varchar: printText,
  char: printText,
  json: printJson,
  timestamp: printTimestamp,
  date: printDate,
  time: printMatching(/^\d\d:\d\d(:\d\d(\.\d{1,12})?)?$/, 'a time of day', (text, type) => `CAST('${text}' AS ${type})`),
  uuid: printMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, 'a UUID', (text) => `UUID '${text}'`),
  varbinary: printMatching(
    /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
    'base64',
    (text) => `from_base64('${text}')`,
  ),
  array: printComposite,
  map: printComposite,
  row: printComposite,
}
