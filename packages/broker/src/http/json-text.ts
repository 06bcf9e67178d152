// Text → JSON value for bodies from outside: bounded before anything is built (json-scan.ts), then parsed, then looked
// through for text that PostgreSQL cannot hold.
import { ApiError } from '@brokkr/contract/error.ts'
import { fieldPath } from './field-path.ts'
import { type JsonLimits, scanJson } from './json-scan.ts'

export const jsonLimits: JsonLimits = { depthMax: 64, nodesMax: 200_000 }

/** Any JSON value, bare strings too. Throws `invalid_json`, `invalid_request_body` (a field twice) or `validation_failed` (text PostgreSQL cannot hold). */
export function parseJson(text: string, limits: JsonLimits = jsonLimits): unknown {
  const scanned = scanJson(text, limits)
  const value = parsed(text)
  // Told only of a text that parses: a syntax error is the better answer to a broken one.
  if (scanned.hasTwice) throw new ApiError('invalid_request_body', 'the body names a field twice; send each field once')
  const path = badText(value)
  if (path !== null) throw badTextError(path)
  return value
}

/** NUL cannot be stored as text, and half a surrogate pair is no character. */
export const isCleanText = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ApiError('invalid_json', 'the body is not valid JSON')
  }
}

/** Path to the first text that cannot be kept; null when there is none. Recursion is bounded by the depth limit. */
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
