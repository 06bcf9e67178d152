// Validates path, query and body against the contract's schemas. Each validator returns a copy with defaults and without unknown fields,
// or throws an ApiError.
import { type Endpoint } from '@brokkr/contract/endpoint.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { z } from 'zod'
import { isCleanText } from './json-text.ts'
import { coerceQuery } from './query.ts'
import { type FieldFault, toFieldFault } from './schema-error-text.ts'
import { type JsonSchema, type Strip, stripUnknown } from './strip-unknown.ts'

export interface Validators {
  params(raw: Readonly<Record<string, string>>): Record<string, unknown> | undefined
  query(text: string): Record<string, unknown> | undefined
  body(value: unknown): unknown
}

/** One per process, because compiling a schema is costly. Schemas are compiled on first use: compiling all of them would add a quarter
 *  of a second to the start. */
export function createCompiler(): (endpoint: Endpoint) => Validators {
  const ajv = new Ajv2020({ useDefaults: true, removeAdditional: false, strictTypes: false, strictRequired: false, coerceTypes: false })
  addFormats.default(ajv)
  // The package's own format also accepts `urn:uuid:…`, which PostgreSQL does not.
  ajv.addFormat('uuid', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i)
  return (endpoint) => ({
    params: whenAsked(() => paramsCheck(createChecker(ajv, endpoint.params))),
    query: whenAsked(() => queryCheck(createChecker(ajv, endpoint.query))),
    body: whenAsked(() => (endpoint.bodyKind === 'lenient' ? fittingFields : bodyCheck)(createChecker(ajv, endpoint.body))),
  })
}

function whenAsked<In, Out>(make: () => (input: In) => Out): (input: In) => Out {
  let check: ((input: In) => Out) | null = null
  return (input) => (check ??= make())(input)
}

interface Checker {
  readonly schema: JsonSchema
  readonly validate: ValidateFunction
  readonly strip: Strip
}

function createChecker(ajv: Ajv2020, type: z.ZodType | undefined): Checker | null {
  if (type === undefined) return null
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io: 'input' }) as Record<string, unknown>
  return { schema, validate: ajv.compile(schema), strip: stripUnknown(schema) }
}

function paramsCheck(checker: Checker | null): Validators['params'] {
  if (checker === null) return () => undefined
  return (raw) => {
    const unclean = Object.keys(raw).find((name) => !isCleanText(raw[name] ?? ''))
    if (unclean !== undefined) throw badParameter('invalid_path_parameter', { path: unclean, message: 'contains a forbidden character' })
    return checked(checker, { ...raw }, (fault) => badParameter('invalid_path_parameter', fault)) as Record<string, unknown>
  }
}

function queryCheck(checker: Checker | null): Validators['query'] {
  if (checker === null) return () => undefined
  return (text) =>
    checked(checker, coerceQuery(checker.schema, text), (fault) => badParameter('invalid_query_parameter', fault)) as Record<
      string,
      unknown
    >
}

function bodyCheck(checker: Checker | null): Validators['body'] {
  return checker === null ? () => undefined : (value) => checked(checker, value, badBody)
}

/** Lenient: a field of the wrong type is dropped, and a body that is not an object counts as empty. */
function fittingFields(checker: Checker | null): Validators['body'] {
  if (checker === null) return () => undefined
  return (value) => {
    const stripped = checker.strip(value)
    const fields = typeof stripped === 'object' && stripped !== null && !Array.isArray(stripped) ? { ...stripped } : {}
    const fits = (one: object) => checker.validate(one)
    return Object.fromEntries(Object.entries(fields).filter(([name, field]) => fits({ [name]: field })))
  }
}

function checked(checker: Checker, value: unknown, refuse: (fault: FieldFault) => ApiError): unknown {
  // Stripped first: defaults are set in the copy, never in the caller's value.
  const copy = checker.strip(value)
  if (!checker.validate(copy)) throw refuse(toFieldFault(checker.validate.errors ?? []))
  return copy
}

function badParameter(
  code: 'invalid_path_parameter' | 'invalid_query_parameter',
  { path, message }: { path: string; message: string },
): ApiError {
  const where = code === 'invalid_path_parameter' ? 'path' : 'query'
  return new ApiError(code, `${where} parameter ${path} ${message}`, { details: { errors: [{ path, message }] } })
}

/** Labels, annotations and registrations are limited per resource, whichever endpoint adds them. */
const countedLists: ReadonlySet<string> = new Set(['labels', 'annotations', 'generator_ids'])

function badBody({ path, message, is, tooMany }: FieldFault): ApiError {
  const details = { errors: [{ path, message }] }
  const text = path === '' ? `the body ${message}` : `field ${path} ${message}`
  if (tooMany !== undefined && countedLists.has(tooMany.field)) {
    return new ApiError('limit_exceeded', text, { details: { ...details, limit: tooMany.max } })
  }
  return new ApiError(is === 'shape' ? 'invalid_request_body' : 'validation_failed', text, { details })
}
