// Copies a validated value without the fields that its schema does not name, so that no handler can use an unexpected field. Ids become
// lower case, as they are stored; free maps have no prototype.
export type JsonSchema = { readonly [key: string]: unknown }
export type Strip = (value: unknown) => unknown

/** Built once per schema. Throws for an unsupported schema, so that the error occurs at the start. */
export function stripUnknown(schema: JsonSchema): Strip {
  const unknown = ['$ref', 'allOf', 'patternProperties', 'prefixItems'].find((keyword) => schema[keyword] !== undefined)
  if (unknown !== undefined) throw new Error(`a request schema with ${unknown} cannot be stripped; write it without`)
  const branches = branchesOf(schema)
  if (branches !== null) return stripChoice(branches)
  if (schema['properties'] !== undefined || schema['type'] === 'object') return stripObject(schema)
  if (isSchema(schema['items'])) return stripList(stripUnknown(schema['items']))
  if (schema['format'] === 'uuid') return (value) => (typeof value === 'string' ? value.toLowerCase() : value)
  return (value) => value
}

function stripObject(schema: JsonSchema): Strip {
  const known = Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>).map(
    ([key, entry]) => [key, stripUnknown(entry)] as const,
  )
  const others = isSchema(schema['additionalProperties']) ? stripUnknown(schema['additionalProperties']) : null
  const names = new Set(known.map(([key]) => key))
  return (value) => {
    if (!isObject(value)) return value
    const copy: Record<string, unknown> = others === null ? {} : (Object.create(null) as Record<string, unknown>)
    for (const [key, strip] of known) if (Object.hasOwn(value, key)) copy[key] = strip(value[key])
    if (others !== null) for (const [key, entry] of Object.entries(value)) if (!names.has(key)) copy[key] = others(entry)
    return copy
  }
}

const stripList =
  (strip: Strip): Strip =>
  (value) =>
    Array.isArray(value) ? value.map(strip) : value

const branchesOf = (schema: JsonSchema): JsonSchema[] | null => (schema['anyOf'] ?? schema['oneOf'] ?? null) as JsonSchema[] | null

/** Chooses the branch by types and constants; the value is validated in full afterwards. */
function stripChoice(branches: readonly JsonSchema[]): Strip {
  const choices = branches.map((branch) => ({ branch, strip: stripUnknown(branch) }))
  return (value) => (choices.find(({ branch }) => couldBe(branch, value))?.strip ?? ((same: unknown) => same))(value)
}

function couldBe(schema: JsonSchema, value: unknown): boolean {
  const branches = branchesOf(schema)
  if (branches !== null) return branches.some((branch) => couldBe(branch, value))
  if (schema['const'] !== undefined && schema['const'] !== value) return false
  if (Array.isArray(schema['enum']) && !schema['enum'].includes(value)) return false
  const types = schema['type'] === undefined ? null : [schema['type']].flat()
  if (types !== null && !types.includes(typeOf(value)) && !(types.includes('number') && typeof value === 'number')) return false
  return !isObject(value) || couldBeObject(schema, value)
}

function couldBeObject(schema: JsonSchema, value: Record<string, unknown>): boolean {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>)
  const required = (schema['required'] ?? []) as string[]
  return (
    required.every((key) => Object.hasOwn(value, key)) &&
    properties.every(([key, entry]) => !Object.hasOwn(value, key) || couldBe(entry, value[key]))
  )
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value === 'number' ? (Number.isInteger(value) ? 'integer' : 'number') : typeof value
}

const isSchema = (value: unknown): value is JsonSchema => typeof value === 'object' && value !== null && !Array.isArray(value)
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
