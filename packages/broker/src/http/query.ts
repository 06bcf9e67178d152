// Query text → values of the types the schema names. Strict: a number is written in digits, a boolean as true or false;
// what cannot be read so stays text and fails the check, and so does a key sent twice that is no list.
import { ApiError } from '@brokkr/contract/error.ts'
import { isCleanText } from './json-text.ts'
import type { JsonSchema } from './strip-unknown.ts'

/** Keys the schema does not name are left out. */
export function coerceQuery(schema: JsonSchema, text: string): Record<string, unknown> {
  if (text === '') return {}
  const properties = (schema['properties'] ?? {}) as Record<string, JsonSchema>
  const search = new URLSearchParams(text)
  const values: Record<string, unknown> = {}
  for (const [name, property] of Object.entries(properties)) {
    const sent = search.getAll(name)
    if (sent.some((value) => !isCleanText(value))) throw refused(name, 'holds a character that is not allowed')
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
