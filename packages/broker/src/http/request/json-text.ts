// Parses JSON bodies: limits first (json-scan.ts), then the parser, then a check for text that PostgreSQL cannot store.
import { ApiError } from '@brokkr/contract/errors.ts'
import { type JsonLimits, scanJson } from './json-scan.ts'

const jsonLimits: JsonLimits = { depthMax: 64, nodesMax: 200_000 }

export interface ParseOptions {
  readonly limits?: JsonLimits
  /** Numbers that print differently than they were written become raw JSON, which prints as written. */
  readonly isExact?: boolean
}

/** Any JSON value. Throws `invalid_json`, `invalid_request_body` (duplicate field) or `validation_failed` (text PostgreSQL cannot store). */
export function parseJson(text: string, { limits = jsonLimits, isExact = false }: ParseOptions = {}): unknown {
  const scanned = scanJson(text, limits)
  const value = parsed(text, isExact ? keepDigits : undefined)
  // Only for text that parses: otherwise the syntax error is more useful.
  if (scanned.hasTwice) throw new ApiError('invalid_request_body', 'the body contains a duplicate field; send each field once')
  const path = badText(value)
  if (path !== null) throw badTextError(path)
  return value
}

/** PostgreSQL cannot store NUL, and half a surrogate pair is not a character. */
export const isCleanText = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** Newer than the compiler's library. */
type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown
const exactJson = JSON as unknown as { parse(text: string, reviver?: Reviver): unknown; rawJSON(text: string): unknown }

const keepDigits: Reviver = (_key, value, { source }) =>
  typeof value === 'number' && source !== undefined && String(value) !== source ? exactJson.rawJSON(source) : value

function parsed(text: string, reviver?: Reviver): unknown {
  try {
    return exactJson.parse(text, reviver)
  } catch {
    throw new ApiError('invalid_json', 'the body is not valid JSON')
  }
}

/** Path to the first text that cannot be stored; null if there is none. Recursion is bounded by the depth limit. */
function badText(value: unknown): (string | number)[] | null {
  if (typeof value === 'string') return isCleanText(value) ? null : []
  if (typeof value !== 'object' || value === null) return null
  for (const [key, entry] of Object.entries(value)) {
    const below = isCleanText(key) ? badText(entry) : []
    if (below !== null) return [Array.isArray(value) ? Number(key) : key, ...below]
  }
  return null
}

function badTextError(path: readonly (string | number)[]): ApiError {
  const message = 'holds a NUL character or half a surrogate pair'
  return new ApiError('validation_failed', 'a text in the body cannot be stored', {
    details: { errors: [{ path: fieldPath(path), message }] },
  })
}

// Path of a field in a body, such as `stacks[3].rev`. Names sent by the client appear only if they have the form of our field names.
export function fieldPath(steps: readonly (string | number)[]): string {
  return steps.map((step, index) => (typeof step === 'number' ? `[${step}]` : `${index === 0 ? '' : '.'}${fieldName(step)}`)).join('')
}

const fieldName = (name: string): string => (/^[a-z][a-z0-9_]{0,63}$/.test(name) ? name : '*')
