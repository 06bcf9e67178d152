// Query parameters: conversion to the types of the schema, label filters, deleted rows.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { LabelFilter } from '../../targeting/store/labels.ts'
import type { Principal } from '../server/handler.ts'
import { isCleanText } from './json-text.ts'
import type { JsonSchema } from './strip-unknown.ts'

// Converts query text to the types of the schema. Strict: numbers are digits, booleans are true or false. Other text stays text and
// fails validation, and so does a repeated parameter that is not a list.

/** Drops parameters that the schema does not name. */
export function coerceQuery(schema: JsonSchema, text: string): Record<string, unknown> {
  if (text === '') return {}
  const properties = (schema['properties'] ?? {}) as Record<string, JsonSchema>
  const search = new URLSearchParams(text)
  const values: Record<string, unknown> = {}
  for (const [name, property] of Object.entries(properties)) {
    const sent = search.getAll(name)
    if (sent.some((value) => !isCleanText(value))) throw refused(name, 'contains a forbidden character')
    const isList = property['type'] === 'array'
    if (!isList && sent.length > 1) throw refused(name, 'may be sent once only')
    if (isList && sent.length > 0) values[name] = sent.map((value) => coerce((property['items'] ?? {}) as JsonSchema, value))
    else if (sent[0] !== undefined) values[name] = coerce(property, sent[0])
  }
  return values
}

function coerce(schema: JsonSchema, text: string): unknown {
  const type = schema['type']
  if ((type === 'integer' || type === 'number') && /^-?\d{1,20}(\.\d{1,20})?$/.test(text)) return Number(text)
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

function refused(name: string, message: string): ApiError {
  return new ApiError('invalid_query_parameter', `query parameter ${name} ${message}`, { details: { errors: [{ path: name, message }] } })
}

/** Converts label and annotation query parameters to a store filter without duplicates. An annotation is split at its first `=`. */
export function toLabelFilter(query: {
  readonly label?: readonly string[] | undefined
  readonly annotation?: readonly string[] | undefined
}): LabelFilter {
  const annotations = [...new Set(query.annotation)].map(parseAnnotation)
  return { labels: [...new Set(query.label)], keys: annotations.map(([key]) => key), values: annotations.map(([, value]) => value) }
}

function parseAnnotation(text: string): readonly [key: string, value: string] {
  const separator = text.indexOf('=')
  if (separator > 0) return [text.slice(0, separator), text.slice(separator + 1)]
  const message = 'must have the form key=value'
  throw new ApiError('invalid_query_parameter', `query parameter annotation ${message}`, {
    details: { errors: [{ path: 'annotation', message }] },
  })
}

/** Whether a response includes deleted rows: only on request, for admins and, where a list allows it, for owners. */
export const includesDeleted = (
  { principal, query }: { readonly principal: Principal; readonly query: { readonly include_deleted: boolean } },
  owners: 'owners' | 'admins alone' = 'admins alone',
): boolean => query.include_deleted && (principal.kind === 'admin' || (owners === 'owners' && principal.kind === 'generator'))
