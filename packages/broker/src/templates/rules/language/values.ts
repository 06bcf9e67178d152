// Values of templates. An integer is a bigint and a fraction is a number, so that integers are exact to 64 bits and a number keeps its JSON
// kind. Objects are maps, so that no key can reach a prototype.
import { formatFraction, toFloat } from './numbers.ts'

export type Value = null | boolean | bigint | number | string | readonly Value[] | ValueMap
export type ValueMap = ReadonlyMap<string, Value>

export const isMap = (value: Value): value is ValueMap => value instanceof Map
export const isList = (value: Value): value is readonly Value[] => Array.isArray(value)
export const isNumber = (value: Value): value is bigint | number => typeof value === 'bigint' || typeof value === 'number'

const [integerMin, integerMax] = [-(2n ** 63n), 2n ** 64n - 1n]

/** Parses the parameters; `text` must be valid JSON. Objects are sorted by key. */
export function parseParameters(text: string): ValueMap {
  const parse = JSON.parse as (text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown) => unknown
  const value = parse(text, (_key, entry, { source }) => {
    if (typeof entry === 'number') return parseNumber(source ?? String(entry))
    return typeof entry === 'object' && entry !== null && !Array.isArray(entry) ? toMap(entry as Record<string, Value>) : entry
  }) as Value
  return isMap(value) ? value : new Map()
}

const toMap = (object: Readonly<Record<string, Value>>): ValueMap =>
  new Map(Object.entries(object).toSorted(([one], [other]) => compareText(one, other)))

function parseNumber(source: string): bigint | number {
  if (/^-?\d+$/.test(source) && source !== '-0') {
    const integer = BigInt(source)
    if (integer >= integerMin && integer <= integerMax) return integer
  }
  return Number(source)
}

/** By code point, as UTF-8 bytes compare. */
export function compareText(one: string, other: string): number {
  const length = Math.min(one.length, other.length)
  for (let at = 0; at < length; at += 1) {
    const [left, right] = [one.charCodeAt(at), other.charCodeAt(at)]
    if (left === right) continue
    // A surrogate belongs to a code point above all single units.
    return isSurrogate(left) === isSurrogate(right) ? left - right : isSurrogate(left) ? 1 : -1
  }
  return one.length - other.length
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff

export function isTruthy(value: Value): boolean {
  if (value === null || typeof value === 'boolean') return value === true
  if (typeof value === 'string') return value !== ''
  if (isNumber(value)) return toFloat(value) !== 0
  return isMap(value) ? value.size > 0 : value.length > 0
}

/** Numbers of different kinds differ: 5 is not 5.0. */
export function equals(one: Value, other: Value): boolean {
  if (isList(one)) return isList(other) && one.length === other.length && one.every((item, index) => equals(item, other[index] ?? null))
  if (one === null || typeof one !== 'object') return one === other
  if (other === null || !isMap(other) || one.size !== other.size) return false
  return [...one].every(([key, item]) => other.has(key) && equals(item, other.get(key) ?? null))
}

/** As `{{ }}` prints it. */
export function printValue(value: Value): string {
  if (value === null) return ''
  if (typeof value === 'string') return value
  if (typeof value === 'number') return formatFraction(value)
  if (typeof value !== 'object') return String(value)
  return isMap(value) ? '[object]' : `[${value.map(printValue).join(', ')}]`
}

/** Upper bound of the printed length, computed without printing. */
export function printedLength(value: Value): number {
  if (typeof value === 'string') return value.length
  if (value === null || typeof value !== 'object' || isMap(value)) return 330
  return value.reduce<number>((sum, item) => sum + 2 + printedLength(item), 2)
}

export function describeKind(value: Value): string {
  if (value === null) return 'null'
  if (isList(value)) return 'a list'
  if (isMap(value)) return 'an object'
  if (typeof value === 'string') return 'a text'
  return typeof value === 'boolean' ? 'a boolean' : 'a number'
}
