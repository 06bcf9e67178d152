// Reads and prints a table of fields. Everything that is wrong is reported, not just the first thing; a map with a problem in it
// gives undefined, so that no check ever meets half of one.
import { z } from 'zod'
import {
  child,
  type Field,
  type Fields,
  isMap,
  type Kind,
  type Place,
  refuse,
  refuseType,
  type SecretRef,
  type Values,
  warn,
} from './field.ts'
import { readSecretRef } from './secret-ref.ts'

/** `alsoKnown`: keys of the map that somebody else reads. */
export function readFields<F extends Fields>(fields: F, map: unknown, at: Place, alsoKnown: readonly string[] = []): Values<F> | undefined {
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
  at: Place,
  values: Record<string, unknown>,
): void {
  const written = field.from ?? name
  const here = child(at, written, name)
  const given = own(map, written)
  const twin = twinOf(written, field)
  const isTwinned = twin !== undefined && readTwin(twin, own(map, twin), at, values)
  if (isTwinned && values[twin] !== undefined) noteSecret(here, at, twin, field, values[twin] as SecretRef)
  const isGone = field.kind.takesBlank === true ? given === undefined || given === null : isAbsent(given)
  const value = isGone ? undefined : field.kind.read(given, here)
  if (value !== undefined) values[name] = value
  else if (field.fallback !== undefined) values[name] = field.fallback
  else if (field.isRequired === true && !isTwinned && isGone) refuseAbsent(here, field, requiredText(written, twin))
  if (value !== undefined && field.isSecret === true && twin !== undefined) warn(here, `use ${twin}`)
}

const own = (map: Readonly<Record<string, unknown>>, key: string): unknown => (Object.hasOwn(map, key) ? map[key] : undefined)

const twinOf = (written: string, field: Field<unknown>): string | undefined => (field.twin === true ? `${written}SecretRef` : field.twin)

const refuseAbsent = (here: Place, field: Field<unknown>, text: string): undefined =>
  field.isMany === true ? refuse(here, 'V14', 'needs at least one entry') : refuse(here, 'V1', text)

/** Null and blank text mean the same as no field: the public project's objects carry both. */
const isAbsent = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  (typeof value === 'string' && value.trim() === '') ||
  (Array.isArray(value) && value.length === 0)

const requiredText = (written: string, twin: string | undefined): string =>
  twin === undefined ? 'is required' : `is required: set ${written} or ${twin}`

/** True if there is a twin, even a refused one. */
function readTwin(twin: string, given: unknown, at: Place, values: Record<string, unknown>): boolean {
  if (given === undefined || given === null) return false
  values[twin] = readSecretRef(given, child(at, twin))
  return true
}

function noteSecret(here: Place, at: Place, twin: string, field: Field<unknown>, ref: SecretRef): void {
  at.report.secrets.push({ path: `${at.path}.${twin}`, keys: here.keys, twin, isList: field.kind.isList === true, ref })
}

function warnUnknown(fields: Fields, map: Readonly<Record<string, unknown>>, at: Place, alsoKnown: readonly string[]): void {
  const known = new Set(alsoKnown)
  for (const [name, field] of Object.entries(fields)) {
    known.add(field.from ?? name)
    known.add(twinOf(field.from ?? name, field) ?? '')
  }
  for (const key of Object.keys(map)) if (!known.has(key)) warn(child(at, key), 'is not known and is ignored')
}

/** The written form of what was read. */
export function printFields(fields: Fields, values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const map: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(fields)) {
    const written = field.from ?? name
    const twin = twinOf(written, field)
    const value = values[name]
    if (value !== undefined && value !== null) map[written] = field.kind.print(value)
    if (twin !== undefined && values[twin] !== undefined) map[twin] = values[twin]
  }
  return map
}

/** The written form as a schema. Required fields are optional here: their absence has a better text in `readFields`. */
export function schemaOf(fields: Fields): z.ZodObject {
  const shape: Record<string, z.ZodType> = {}
  for (const [name, field] of Object.entries(fields)) {
    const written = field.from ?? name
    const twin = twinOf(written, field)
    shape[written] = field.kind.schema.optional()
    if (twin !== undefined) shape[twin] = secretRefSchema.optional()
  }
  return z.looseObject(shape)
}

const secretRefSchema = z.looseObject({ name: z.string().optional(), key: z.string().optional(), namespace: z.string().optional() })

/** A map of fields within another. */
export const block = <F extends Fields>(fields: F): Kind<Values<F>> => ({
  read: (value, at) => readFields(fields, value, at),
  print: (values) => printFields(fields, values),
  schema: schemaOf(fields),
})
