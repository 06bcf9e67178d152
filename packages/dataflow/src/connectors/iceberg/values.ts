// Converts JSON values to the values that a Parquet column stores, and back. Pure. A value that does not fit is reported, never changed to
// another one: digits, fractions of a second and bytes stay as they are.
import { parseInstant } from '@brokkr/contract/dataflow/language/instant.ts'
import { isRawNumber, isRecord, type Json, type JsonObject, rawNumber, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import { fitsDecimal, toDigits } from '../column-values.ts'
import { type Field, type IcebergType, parseDecimalType, parseFixedType } from './schema.ts'

/** Integers of 64 bits and unscaled decimals are bigints, bytes are arrays. */
export type Stored = null | boolean | number | bigint | string | Uint8Array | Stored[] | { [key: string]: Stored }
export type Fitted = { readonly value: Stored } | { readonly problem: string }

export function toStored(field: Field, value: Json | undefined): Fitted {
  if (value === undefined || value === null) return field.required ? { problem: 'does not accept null' } : { value: null }
  return fit(field.type, value)
}

function fit(type: IcebergType, value: Json): Fitted {
  if (typeof type !== 'string') return fitNested(type, value)
  const convert = converters[type]
  if (convert !== undefined) return convert(value)
  const decimal = parseDecimalType(type)
  if (decimal !== undefined) return fitDecimal(value, type, decimal.scale)
  const length = parseFixedType(type)
  if (length === undefined) return { problem: `has the type ${type}, which cannot be written` }
  const bytes = fitBytes(value)
  return 'value' in bytes && (bytes.value as Uint8Array).length !== length ? { problem: `does not have ${length} bytes` } : bytes
}

function fitNested(type: Exclude<IcebergType, string>, value: Json): Fitted {
  if (type.type === 'struct') {
    if (!isRecord(value)) return { problem: 'is not an object' }
    return collect(
      type.fields.map((field) => [field.name, toStored(field, Object.hasOwn(value, field.name) ? value[field.name] : undefined)]),
    )
  }
  if (type.type === 'list') {
    if (!Array.isArray(value)) return { problem: 'is not an array' }
    const items: Stored[] = []
    for (const item of value) {
      const fitted = item === null ? orNull(type['element-required']) : fit(type.element, item)
      if ('problem' in fitted) return { problem: `has an item that ${fitted.problem}` }
      items.push(fitted.value)
    }
    return { value: items }
  }
  if (!isRecord(value)) return { problem: 'is not an object' }
  const entries: Stored[] = []
  for (const [name, item] of Object.entries(value)) {
    const key = fit(type.key, name)
    const fitted = item === null ? orNull(type['value-required']) : fit(type.value, item)
    if ('problem' in key) return { problem: `has a key that ${key.problem}` }
    if ('problem' in fitted) return { problem: `has a value that ${fitted.problem}` }
    entries.push({ key: key.value, value: fitted.value })
  }
  return { value: entries }
}

const orNull = (isRequired: boolean): Fitted => (isRequired ? { problem: 'does not accept null' } : { value: null })

function collect(parts: readonly (readonly [string, Fitted])[]): Fitted {
  const object: { [key: string]: Stored } = {}
  for (const [name, fitted] of parts) {
    if ('problem' in fitted) return { problem: `has a field ${name} that ${fitted.problem}` }
    object[name] = fitted.value
  }
  return { value: object }
}

function fitInteger(bits: number): (value: Json) => Fitted {
  return (value) => {
    const digits = toDigits(value)
    if (digits === undefined || digits.includes('.')) return { problem: 'is not a whole number' }
    const number = BigInt(digits)
    if (BigInt.asIntN(bits, number) !== number) return { problem: `is outside the range of ${bits === 32 ? 'int' : 'long'}` }
    return { value: bits === 32 ? Number(number) : number }
  }
}

function fitFloat(isSingle: boolean): (value: Json) => Fitted {
  return (value) => {
    const text = isRawNumber(value) ? value.rawJSON : typeof value === 'number' || typeof value === 'string' ? String(value) : ''
    if (!/^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) || !Number.isFinite(Number(text))) return { problem: 'is not a number' }
    const number = Number(text)
    return isSingle && !Number.isFinite(Math.fround(number)) ? { problem: 'is outside the range of float' } : { value: number }
  }
}

function fitDecimal(value: Json, type: string, scale: number): Fitted {
  const digits = toDigits(value)
  if (digits === undefined) return { problem: 'is not a decimal number' }
  if (!fitsDecimal(digits, type)) return { problem: `does not fit ${type}` }
  const [whole = '0', fraction = ''] = digits.replace('-', '').split('.')
  const unscaled = BigInt(`${whole}${fraction.slice(0, scale).padEnd(scale, '0')}`)
  return { value: digits.startsWith('-') ? -unscaled : unscaled }
}

const fitBoolean = (value: Json): Fitted => {
  if (value === true || value === 'true' || value === 1) return { value: true }
  return value === false || value === 'false' || value === 0 ? { value: false } : { problem: 'is not a boolean' }
}

function fitBytes(value: Json): Fitted {
  const isBase64 = typeof value === 'string' && /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value)
  return isBase64 ? { value: Buffer.from(value, 'base64') } : { problem: 'is not base64' }
}

function fitUuid(value: Json): Fitted {
  const isUuid = typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value)
  return isUuid ? { value: Buffer.from(value.replaceAll('-', ''), 'hex') } : { problem: 'is not a UUID' }
}

const naive = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?$/

/** Microseconds since 1970. Numbers are seconds, from 1e11 on milliseconds; a text without a zone is taken as UTC. */
function toMicros(value: Json): bigint | 'too fine' | undefined {
  if (typeof value !== 'string') {
    const digits = toDigits(value)
    if (digits === undefined) return undefined
    const [whole = '0', part = ''] = digits.replace('-', '').split('.')
    const fraction = toFraction(part, BigInt(whole) >= 100_000_000_000n ? 3 : 6)
    if (fraction === undefined) return 'too fine'
    const micros = BigInt(`${whole}${fraction}`)
    return digits.startsWith('-') ? -micros : micros
  }
  const [, year, month, day, hour = '00', minute = '00', second = '00', part] = naive.exec(value) ?? []
  const text = year === undefined ? value : `${year}-${month}-${day}T${hour}:${minute}:${second}${part === undefined ? '' : `.${part}`}Z`
  const instant = parseInstant(text)
  if (instant === undefined) return undefined
  const fraction = toFraction(instant.fraction, 6)
  return fraction === undefined ? 'too fine' : BigInt(instant.seconds) * 1_000_000n + BigInt(fraction)
}

/** Exactly `length` digits; undefined if others than zeros come behind them. */
function toFraction(digits: string, length: number): string | undefined {
  return /[1-9]/.test(digits.slice(length)) ? undefined : digits.slice(0, length).padEnd(length, '0')
}
const tooFine = { problem: 'is finer than microseconds' }

function fitTimestamp(value: Json): Fitted {
  const micros = toMicros(value)
  if (micros === undefined) return { problem: 'is not a time' }
  if (micros === 'too fine') return tooFine
  return micros >= firstMicros && micros <= lastMicros ? { value: micros } : { problem: 'is outside the years 1 to 9999' }
}
const firstMicros = BigInt(Date.parse('0001-01-01T00:00:00Z')) * 1000n
const lastMicros = BigInt(Date.parse('9999-12-31T23:59:59.999Z')) * 1000n + 999n

function fitDate(value: Json): Fitted {
  // The day as it is written, whatever its zone.
  const text = typeof value === 'string' ? /^\d{4}-\d\d-\d\d(?=$|[T ])/.exec(value)?.[0] : value
  const micros = text === undefined ? undefined : toMicros(text)
  if (micros === 'too fine') return tooFine
  return micros === undefined ? { problem: 'is not a date' } : { value: Number(floorDivide(micros, 86_400_000_000n)) }
}

function fitTime(value: Json): Fitted {
  const [, hour, minute, second = '00', part = ''] =
    (typeof value === 'string' ? /^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?$/.exec(value) : undefined) ?? []
  if (hour === undefined || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return { problem: 'is not a time of day' }
  const fraction = toFraction(part, 6)
  if (fraction === undefined) return tooFine
  const seconds = (Number(hour) * 60 + Number(minute)) * 60 + Number(second)
  return { value: BigInt(seconds) * 1_000_000n + BigInt(fraction) }
}

export const floorDivide = (value: bigint, by: bigint): bigint => (value >= 0n ? value / by : -((-value + by - 1n) / by))

/** A lone surrogate has no UTF-8 form. */
const fitText = (value: Json): Fitted => ({ value: (typeof value === 'string' ? value : JSON.stringify(value)).toWellFormed() })

const converters: Readonly<Record<string, ((value: Json) => Fitted) | undefined>> = {
  boolean: fitBoolean,
  int: fitInteger(32),
  long: fitInteger(64),
  float: fitFloat(true),
  double: fitFloat(false),
  string: fitText,
  uuid: fitUuid,
  binary: fitBytes,
  date: fitDate,
  time: fitTime,
  timestamp: fitTimestamp,
  timestamptz: fitTimestamp,
}

/** The JSON value of a stored one. */
export function fromStored(type: IcebergType, value: Stored | undefined): Json {
  if (value === undefined || value === null) return null
  if (typeof type !== 'string') return fromNested(type, value)
  const decimal = parseDecimalType(type)
  if (decimal !== undefined) return exactNumber(scaledText(toBigint(value), decimal.scale))
  switch (type) {
    case 'long':
      return exactNumber(String(toBigint(value)))
    case 'date':
      return new Date(Number(value) * 86_400_000).toISOString().slice(0, 10)
    case 'time':
      return microsText(toBigint(value)).slice(11, -1)
    case 'timestamp':
      return microsText(toBigint(value)).slice(0, -1)
    case 'timestamptz':
      return microsText(toBigint(value))
    case 'uuid':
      return typeof value === 'string' ? value : uuidText(value as Uint8Array)
    case 'float':
    case 'double':
      // JSON has neither infinities nor NaN.
      return Number.isFinite(value) ? (value as number) : null
    default:
      return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : (value as Json)
  }
}

function fromNested(type: Exclude<IcebergType, string>, value: Stored): Json {
  if (type.type === 'list') return (value as Stored[]).map((item) => fromStored(type.element, item))
  const object: JsonObject = {}
  if (type.type === 'struct') {
    for (const field of type.fields) setKey(object, field.name, fromStored(field.type, (value as { [key: string]: Stored })[field.name]))
    return object
  }
  const pairs = Array.isArray(value)
    ? value.map((entry) => [(entry as { key: Stored }).key, (entry as { value: Stored }).value] as const)
    : Object.entries(value as { [key: string]: Stored })
  for (const [key, item] of pairs) setKey(object, keyText(fromStored(type.key, key)), fromStored(type.value, item))
  return object
}

const keyText = (key: Json): string => (typeof key === 'string' ? key : JSON.stringify(key))

function toBigint(value: Stored): bigint {
  if (!(value instanceof Uint8Array)) return BigInt(value as number | bigint)
  return value.length === 0 ? 0n : BigInt.asIntN(value.length * 8, BigInt(`0x${Buffer.from(value).toString('hex')}`))
}

function scaledText(unscaled: bigint, scale: number): string {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0')
  const point = digits.length - scale
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, point)}${scale === 0 ? '' : `.${digits.slice(point)}`}`
}

/** A double where it prints as written, else the digits. */
const exactNumber = (text: string): Json => (String(Number(text)) === text ? Number(text) : rawNumber(text))

/** `2026-01-02T03:04:05.000006Z`, without a fraction of zeros. */
function microsText(micros: bigint): string {
  const seconds = floorDivide(micros, 1_000_000n)
  const fraction = micros - seconds * 1_000_000n
  const date = new Date(Number(seconds) * 1000).toISOString().slice(0, 19)
  return `${date}${fraction === 0n ? '' : `.${String(fraction).padStart(6, '0')}`}Z`
}

function uuidText(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
