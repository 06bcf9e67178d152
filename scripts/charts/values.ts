// Values of a chart as a tree with description, schema and default: the source of values.yaml and values.schema.json. Pure.
import { stringify } from 'yaml'

type JsonSchema = Readonly<Record<string, unknown>>
export interface Value {
  readonly is: 'value'
  readonly description: string
  readonly schema: JsonSchema
  readonly fallback: unknown
  /** Lines of comment below the description, such as the settings that a table lists. */
  readonly notes?: readonly string[]
}
export interface Values {
  readonly [name: string]: Value | Values
}

const value = (schema: JsonSchema, fallback: unknown, description: string): Value => ({ is: 'value', description, schema, fallback })

export const text = (description: string, fallback = ''): Value => value({ type: 'string' }, fallback, description)
export const flag = (description: string, fallback: boolean): Value => value({ type: 'boolean' }, fallback, description)
export const number = (description: string, fallback: number, minimum = 0, maximum = 1_000_000): Value =>
  value({ type: 'integer', minimum, maximum }, fallback, description)
export const choice = (description: string, choices: readonly (string | boolean)[], fallback: string | boolean): Value =>
  value({ enum: choices }, fallback, description)
export const texts = (description: string, fallback: readonly string[] = [], items: JsonSchema = { type: 'string', minLength: 1 }): Value =>
  value({ type: 'array', items, uniqueItems: true }, fallback, description)
/** Objects of Kubernetes, which the API server checks. */
export const objects = (description: string, fallback: readonly object[] = []): Value =>
  value({ type: 'array', items: { type: 'object' } }, fallback, description)
export const object = (description: string, fallback: object = {}): Value => value({ type: 'object' }, fallback, description)
export const shaped = (description: string, schema: JsonSchema, fallback: unknown, notes: readonly string[] = []): Value => ({
  ...value(schema, fallback, description),
  notes,
})

const isValue = (entry: Value | Values): entry is Value => entry['is'] === 'value'

/** An unknown key is refused at every level that we define. */
export function buildSchema(title: string, values: Values): JsonSchema {
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', title, ...buildGroup(values, { global: { type: 'object' } }) }
}

function buildGroup(values: Values, further: Readonly<Record<string, unknown>> = {}): JsonSchema {
  const properties = Object.entries(values).map(([name, entry]) => [
    name,
    isValue(entry) ? { description: entry.description, ...entry.schema } : buildGroup(entry),
  ])
  return { type: 'object', additionalProperties: false, properties: { ...Object.fromEntries(properties), ...further } }
}

export const buildDefaults = (values: Values): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).map(([name, entry]) => [name, isValue(entry) ? entry.fallback : buildDefaults(entry)]))

export const buildValuesText = (values: Values): string => buildLines(values, '').join('\n')

function buildLines(values: Values, indent: string): string[] {
  return Object.entries(values).flatMap(([name, entry]) => {
    if (!isValue(entry)) return [`${indent}${name}:`, ...buildLines(entry, `${indent}  `)]
    const comments = [entry.description, ...(entry.notes ?? [])].flatMap((line) => wrap(line, 130 - indent.length))
    const lines = stringify({ [name]: entry.fallback }, { lineWidth: 0, aliasDuplicateObjects: false })
      .trimEnd()
      .split('\n')
    return [...comments.map((line) => `${indent}# ${line}`), ...lines.map((line) => `${indent}${line}`)]
  })
}

function wrap(line: string, width: number): string[] {
  const lines: string[] = []
  let current = ''
  for (const word of line.split(' ')) {
    if (current !== '' && current.length + word.length + 1 > width) {
      lines.push(current)
      current = word
    } else current = current === '' ? word : `${current} ${word}`
  }
  return [...lines, current]
}
