// Converts errors of the schema validator to sentences: which field, and what it must be. Never contains the received value or a
// pattern.
import type { ErrorObject } from 'ajv'
import { fieldPath } from './json-text.ts'

export interface FieldFault {
  readonly path: string
  readonly message: string
  /** `shape`: missing or wrong type. `value`: right type, but too long, too many or out of range. */
  readonly is: 'shape' | 'value'
  /** Set if a list has too many entries: the last name of its path, and the maximum. */
  readonly tooMany?: { readonly field: string; readonly max: number }
}

/** The validator stops at the first fault; for a union it reports each branch, and the deepest one is used. */
export function toFieldFault(errors: readonly ErrorObject[]): FieldFault {
  const error =
    errors.filter((candidate) => !choiceKeywords.has(candidate.keyword) && !isNullBranch(candidate)).toSorted(byDepth)[0] ?? errors[0]
  if (error === undefined) return { path: '', message: 'is not valid', is: 'shape' }
  const steps = toPathSteps(error)
  return {
    path: fieldPath(steps),
    message: sentence(error),
    is: valueKeywords.has(error.keyword) ? 'value' : 'shape',
    ...findTooMany(error, steps),
  }
}

const choiceKeywords: ReadonlySet<string> = new Set(['anyOf', 'oneOf'])
const isNullBranch = (error: ErrorObject): boolean => error.keyword === 'type' && error.params['type'] === 'null'
const byDepth = (a: ErrorObject, b: ErrorObject): number => toPathSteps(b).length - toPathSteps(a).length

function toPathSteps(error: ErrorObject): (string | number)[] {
  const steps = error.instancePath.split('/').slice(1).map(unescaped)
  return error.keyword === 'required' ? [...steps, String(error.params['missingProperty'])] : steps
}

function unescaped(step: string): string | number {
  return /^\d+$/.test(step) ? Number(step) : step.replaceAll('~1', '/').replaceAll('~0', '~')
}

const valueKeywords: ReadonlySet<string> = new Set(
  'maxLength minLength maximum minimum exclusiveMaximum exclusiveMinimum multipleOf maxItems minItems maxProperties minProperties pattern uniqueItems'.split(
    ' ',
  ),
)

function sentence({ keyword, params }: ErrorObject): string {
  return sentences[keyword]?.(params as Record<string, unknown>) ?? 'is not valid'
}

const sentences: Readonly<Record<string, (params: Record<string, unknown>) => string>> = {
  required: () => 'is missing',
  type: ({ type }) => `must be ${typeText(type)}`,
  format: ({ format }) =>
    format === 'uuid' ? 'must be a uuid' : format === 'date-time' ? 'must be a time as in RFC 3339' : 'has the wrong form',
  enum: ({ allowedValues }) => `must be one of ${(Array.isArray(allowedValues) ? allowedValues : []).map(String).join(', ')}`,
  const: () => 'must have one fixed value',
  maxLength: ({ limit }) => `must be at most ${limit} characters long`,
  minLength: ({ limit }) => `must be at least ${limit} characters long`,
  maximum: ({ limit }) => `must be at most ${limit}`,
  minimum: ({ limit }) => `must be at least ${limit}`,
  exclusiveMaximum: ({ limit }) => `must be less than ${limit}`,
  exclusiveMinimum: ({ limit }) => `must be more than ${limit}`,
  maxItems: ({ limit }) => `must have at most ${limit} entries`,
  minItems: ({ limit }) => `must have at least ${limit} entries`,
  maxProperties: ({ limit }) => `must have at most ${limit} entries`,
  minProperties: ({ limit }) => `must have at least ${limit} entries`,
  pattern: () => 'has a form that is not allowed',
}

function typeText(type: unknown): string {
  const names = (Array.isArray(type) ? type : [type]).map((name) => typeNames[String(name)] ?? 'of another type')
  return names.join(' or ')
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
}

function findTooMany({ keyword, params }: ErrorObject, steps: readonly (string | number)[]): Pick<FieldFault, 'tooMany'> {
  const field = steps.at(-1)
  if ((keyword !== 'maxItems' && keyword !== 'maxProperties') || typeof field !== 'string') return {}
  return { tooMany: { field, max: Number(params['limit']) } }
}
