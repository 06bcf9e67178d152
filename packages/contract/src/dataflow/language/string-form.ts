// String form of a value, which conditions compare and masks count, and its truth value.
import { numberText } from './decimal.ts'
import { instantText } from './instant.ts'
import { isRawNumber, type Json, type MetadataValue } from './json.ts'

/** Integers as written, null as empty text, objects and arrays as compact JSON. */
export function stringForm(value: Json): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || isRawNumber(value)) return numberText(value)
  if (value === null) return ''
  return typeof value === 'boolean' ? String(value) : JSON.stringify(value)
}

/** False: missing, null, false, 0, "" and "false"; all other values are true, also empty objects and arrays. */
export function isTrue(value: Json | undefined): boolean {
  if (typeof value === 'string') return value !== '' && value !== 'false'
  if (typeof value === 'object') return value !== null && !(isRawNumber(value) && numberText(value) === '0')
  return value !== undefined && value !== false && value !== 0
}

/** Metadata in conditions and text: times as RFC3339 in UTC. */
export const metadataJson = (value: MetadataValue | undefined): Json | undefined =>
  value instanceof Date ? instantText(value) : (value as Json | undefined)
