// JSON values of payloads. A number whose digits a double cannot keep is a raw number (`JSON.rawJSON`), which prints as written. Keys are
// data: `__proto__` is an ordinary key, so keys are defined, never assigned.

export type Json = null | boolean | number | string | RawNumber | Json[] | JsonObject
export type JsonObject = { [key: string]: Json }
export interface RawNumber {
  readonly rawJSON: string
}

/** What a source knows about a message besides its payload. Times are dates, read as RFC3339 in UTC. */
export type Metadata = { readonly [key: string]: MetadataValue }
export type MetadataValue = Json | Date | Metadata

/** Newer than the compiler's library. */
interface ExactJson {
  rawJSON(text: string): RawNumber
  isRawJSON?(value: unknown): boolean
}
const exact = JSON as unknown as ExactJson

/** `digits` must be a JSON number. */
export const rawNumber = (digits: string): RawNumber => exact.rawJSON(digits)

// Older browsers have no raw numbers.
export const isRawNumber: (value: unknown) => value is RawNumber = (
  typeof exact.isRawJSON === 'function' ? exact.isRawJSON.bind(JSON) : () => false
) as (value: unknown) => value is RawNumber

export function isRecord(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRaw(value)
}

/** Called for every payload: checking for the key first costs a tenth of calling the platform. */
const isRaw = (value: object): boolean => 'rawJSON' in value && isRawNumber(value)

/** True for objects and arrays, which two messages could share. */
export function isComposite(value: Json | undefined): value is Json[] | JsonObject {
  return typeof value === 'object' && value !== null && (Array.isArray(value) || !isRaw(value))
}

/** Inherited keys. Only these need an own-property check. */
const inherited: ReadonlySet<string> = new Set([
  ...Object.getOwnPropertyNames(Object.prototype),
  ...Object.getOwnPropertyNames(Array.prototype),
  ...Object.getOwnPropertyNames(Date.prototype),
  'rawJSON',
])
export const isInherited = (key: string): boolean => inherited.has(key)

/** The value of a key; names such as `__proto__` are ordinary keys. */
export function valueAt(object: Json | undefined, key: string): Json | undefined {
  return isRecord(object) && Object.hasOwn(object, key) ? object[key] : undefined
}

/** Sets a key; names such as `__proto__` are ordinary keys. */
export function setKey(object: JsonObject, key: string, value: Json): void {
  if (key !== '__proto__') object[key] = value
  else Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true })
}

/** A deep copy. */
export function cloneJson(value: Json): Json {
  if (!isComposite(value)) return value
  if (Array.isArray(value)) return value.map(cloneJson)
  const copy: JsonObject = {}
  for (const key of Object.keys(value)) setKey(copy, key, cloneJson(value[key]!))
  return copy
}
