// Converts query text to the types of the schema. Strict: numbers are digits, booleans are true or false. Other text stays text and
// fails validation, and so does a repeated parameter that is not a list.
import { ApiError } from '@brokkr/contract/errors.ts'
import { isCleanText } from './json-text.ts'
import type { JsonSchema } from './strip-unknown.ts'

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
