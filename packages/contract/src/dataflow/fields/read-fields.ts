// Reads and prints a table of fields. Reports all problems, not only the first; a map with a problem yields undefined, so that no check
// sees a partial one.
import { z } from 'zod'
import {
  child,
  type Field,
  type Fields,
  isMap,
  type Kind,
  refuse,
  refuseType,
  type SecretRef,
  type SpecLocation,
  type Values,
  warn,
} from './field.ts'

/** `alsoKnown`: keys of the map that other readers handle. */
export function readFields<F extends Fields>(
  fields: F,
  map: unknown,
  at: SpecLocation,
  alsoKnown: readonly string[] = [],
): Values<F> | undefined {
  if (!isMap(map)) return refuseType(at, 'map', map)
  const before = at.report.problems.length
  const values: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(fields)) readField(name, field, map, at, values)
  warnUnknown(fields, map, at, alsoKnown)
  return at.report.problems.length === before ? (values as Values<F>) : undefined
}

function readField(
  name: string,
  field: Field<unknown>,
  map: Readonly<Record<string, unknown>>,
  at: SpecLocation,
  values: Record<string, unknown>,
): void {
  const writtenName = field.from ?? name
  const here = child(at, writtenName, name)
  const input = own(map, writtenName)
  const twin = toSecretRefName(writtenName, field)
  const isTwinned = twin !== undefined && readTwin(twin, own(map, twin), at, values)
  if (isTwinned && values[twin] !== undefined) noteSecret(here, at, twin, field, values[twin] as SecretRef)
  const isGone = field.kind.takesBlank === true ? input === undefined || input === null : isAbsent(input)
  const value = isGone ? undefined : field.kind.read(input, here)
  if (value !== undefined) values[name] = value
  else if (field.fallback !== undefined) values[name] = field.fallback
  else if (field.isRequired === true && !isTwinned && isGone) refuseAbsent(here, field, requiredText(writtenName, twin))
  if (value !== undefined && field.isSecret === true && twin !== undefined) warn(here, `use ${twin}`)
}

const own = (map: Readonly<Record<string, unknown>>, key: string): unknown => (Object.hasOwn(map, key) ? map[key] : undefined)

const toSecretRefName = (written: string, field: Field<unknown>): string | undefined =>
  field.twin === true ? `${written}SecretRef` : field.twin

const refuseAbsent = (here: SpecLocation, field: Field<unknown>, text: string): undefined =>
  field.isMany === true ? refuse(here, 'V14', 'needs at least one entry') : refuse(here, 'V1', text)

/** Null and empty text mean an absent field: objects of the public project contain both. */
const isAbsent = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  (typeof value === 'string' && value.trim() === '') ||
  (Array.isArray(value) && value.length === 0)

const requiredText = (written: string, twin: string | undefined): string =>
  twin === undefined ? 'is required' : `is required: set ${written} or ${twin}`

/** True if there is a secret reference, even a refused one. */
function readTwin(twin: string, given: unknown, at: SpecLocation, values: Record<string, unknown>): boolean {
  if (given === undefined || given === null) return false
  values[twin] = readSecretRef(given, child(at, twin))
  return true
}

/** A reference to a Kubernetes Secret; the operator resolves it. */
function readSecretRef(value: unknown, at: SpecLocation): SecretRef | undefined {
  if (!isMap(value)) return refuseType(at, 'map', value)
  const { name, key, namespace } = value
  if (!isWord(name) || !isWord(key)) return refuse(at, 'V7', 'a secret reference needs name and key')
  if (namespace === undefined || namespace === null || namespace === '') return { name, key }
  return typeof namespace === 'string' ? { name, key, namespace } : refuseType(at, 'string', namespace)
}

const isWord = (value: unknown): value is string => typeof value === 'string' && value.trim() !== ''

function noteSecret(here: SpecLocation, at: SpecLocation, twin: string, field: Field<unknown>, ref: SecretRef): void {
  at.report.secrets.push({ path: `${at.path}.${twin}`, keys: here.keys, twin, isList: field.kind.isList === true, ref })
}

function warnUnknown(fields: Fields, map: Readonly<Record<string, unknown>>, at: SpecLocation, alsoKnown: readonly string[]): void {
  const knownKeys = new Set(alsoKnown)
  for (const [name, field] of Object.entries(fields)) {
    knownKeys.add(field.from ?? name)
    knownKeys.add(toSecretRefName(field.from ?? name, field) ?? '')
  }
  for (const key of Object.keys(map)) if (!knownKeys.has(key)) warn(child(at, key), 'is not known and is ignored')
}

/** Written form of the values. */
export function printFields(fields: Fields, values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const map: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(fields)) {
    const writtenName = field.from ?? name
    const twin = toSecretRefName(writtenName, field)
    const value = values[name]
    if (value !== undefined && value !== null) map[writtenName] = field.kind.print(value)
    if (twin !== undefined && values[twin] !== undefined) map[twin] = values[twin]
  }
  return map
}

/** Schema of the written form. Required fields are optional here: `readFields` reports them with a better message. */
export function buildSchema(fields: Fields): z.ZodObject {
  const shape: Record<string, z.ZodType> = {}
  for (const [name, field] of Object.entries(fields)) {
    const writtenName = field.from ?? name
    const twin = toSecretRefName(writtenName, field)
    shape[writtenName] = field.kind.schema.optional()
    if (twin !== undefined) shape[twin] = secretRefSchema.optional()
  }
  return z.looseObject(shape)
}

const secretRefSchema = z.looseObject({ name: z.string().optional(), key: z.string().optional(), namespace: z.string().optional() })

/** A map of fields within another. */
export const block = <F extends Fields>(fields: F): Kind<Values<F>> => ({
  read: (value, at) => readFields(fields, value, at),
  print: (values) => printFields(fields, values),
  schema: buildSchema(fields),
})
