// What a scalar means, as `kubectl apply -f` reads it: YAML 1.1 words and numbers as the YAML library of Kubernetes resolves them
// (no base 60, no timestamps), then turned into JSON.
import type { JsonValue } from '../json-text.ts'
import { ManifestError, type SourceLocation } from '../manifest-error.ts'
import { floatKey, resolveNumber, type YamlNumber } from './numbers.ts'

export type CoreTag = 'str' | 'int' | 'float' | 'bool' | 'null' | 'map' | 'seq'

interface ScalarText extends SourceLocation {
  readonly text: string
  readonly plain: boolean
  readonly tag: CoreTag | null
}

type Resolved =
  | { readonly type: 'str'; readonly value: string }
  | { readonly type: 'null' }
  | { readonly type: 'bool'; readonly value: boolean }
  | YamlNumber

const isTrue: Resolved = { type: 'bool', value: true }
const isFalse: Resolved = { type: 'bool', value: false }
const isNull: Resolved = { type: 'null' }

const words: ReadonlyMap<string, Resolved> = new Map<string, Resolved>([
  ...['y', 'Y', 'yes', 'Yes', 'YES', 'true', 'True', 'TRUE', 'on', 'On', 'ON'].map((word) => [word, isTrue] as const),
  ...['n', 'N', 'no', 'No', 'NO', 'false', 'False', 'FALSE', 'off', 'Off', 'OFF'].map((word) => [word, isFalse] as const),
  ...['', '~', 'null', 'Null', 'NULL'].map((word) => [word, isNull] as const),
])

const longestWord = 5
const numberStart = /^[-+.0-9]/

export function scalarValue(scalar: ScalarText): JsonValue {
  const resolved = resolveScalar(scalar)
  if (resolved.type === 'null') return null
  if (resolved.type === 'float') return finite(resolved.value, scalar)
  // kubectl hands on what int64 cannot hold as a double.
  if (resolved.type === 'uint') return Number(resolved.value)
  if (resolved.type === 'int') return Number.isSafeInteger(Number(resolved.value)) ? Number(resolved.value) : resolved.value
  return resolved.value
}

/** Keys are texts in JSON; other scalars become the text that kubectl gives them. */
export function scalarKey(scalar: ScalarText): string {
  const resolved = resolveScalar(scalar)
  if (resolved.type === 'null') throw keyError(scalar, 'a key is null')
  if (resolved.type === 'uint') throw keyError(scalar, 'a key is an integer beyond 64 bits')
  return resolved.type === 'float' ? floatKey(resolved.value) : String(resolved.value)
}

const keyError = (place: SourceLocation, what: string) => new ManifestError('bad_key', place, { what, todo: 'write the key in quotes' })

function finite(value: number, place: SourceLocation): number {
  if (Number.isFinite(value)) return value === 0 ? 0 : value
  throw new ManifestError('bad_number', place, {
    what: 'a number is infinite or not a number, which JSON cannot hold',
    todo: 'write a finite number, or a text in quotes',
  })
}

function resolveScalar(scalar: ScalarText): Resolved {
  if (scalar.tag === null) return scalar.plain ? resolvePlain(scalar.text) : { type: 'str', value: scalar.text }
  if (scalar.tag === 'str') return { type: 'str', value: scalar.text }
  const resolved = resolvePlain(scalar.text)
  if (scalar.tag === 'float' && resolved.type === 'int') return { type: 'float', value: Number(resolved.value) }
  if (resolved.type === scalar.tag || (scalar.tag === 'int' && resolved.type === 'uint')) return resolved
  throw new ManifestError('bad_tag', scalar, { what: 'a tag does not fit its value', todo: 'remove the tag or correct the value' })
}

function resolvePlain(text: string): Resolved {
  const word = text.length <= longestWord ? words.get(text) : undefined
  if (word !== undefined) return word
  return (numberStart.test(text) ? resolveNumber(text) : null) ?? { type: 'str', value: text }
}
