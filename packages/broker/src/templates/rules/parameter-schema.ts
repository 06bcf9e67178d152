// Checks parameters against a template's JSON Schema. Patterns run in a linear-time engine and references stay inside the schema, because
// both come from users.

import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import Draft4 from 'ajv-draft-04'
import addFormats from 'ajv-formats'
import { RE2JS, RE2JSException } from 're2js'

/** The schema cannot be used; the message says why. */
export class SchemaRefused extends Error {
  override name = 'SchemaRefused'
}

export const schemaBytesMax = 64 * 1024
const depthMax = 64
const errorsMax = 100

/** Paths and rules of all violations, without values; empty if the parameters fit. Throws SchemaRefused. */
export function listViolations(text: string, parameters: unknown): string[] {
  return withValidator(text, (validate) => {
    if (validate(parameters)) return []
    return (validate.errors ?? []).slice(0, errorsMax).map(describeViolation)
  })
}

/** Throws SchemaRefused. */
export const checkSchema = (text: string): void => withValidator(text, () => undefined)

function withValidator<T>(text: string, use: (validate: ValidateFunction) => T): T {
  const schema = parseSchema(text)
  requireSafe(schema, 0)
  const draft = getDraft(schema)
  if (typeof schema === 'boolean') return use(compile(getSharedCompiler(draft), schema))
  if ('$async' in schema) throw new SchemaRefused('the parameter schema contains $async: parameters are checked at once, remove it')
  // The draft is chosen already; its name, which may be unknown, is not resolved.
  delete schema['$schema']
  // A compiler keeps identifiers, and removing a schema also removes the one registered under its identifier, which may be the schema of
  // schemas. A schema with identifiers therefore gets its own compiler.
  if (containsKey(schema, draft === '04' ? 'id' : '$id')) return use(compile(createCompiler(draft), schema))
  const compiler = getSharedCompiler(draft)
  try {
    return use(compile(compiler, schema))
  } finally {
    compiler.removeSchema(schema)
  }
}

/** True also for a property of that name, which costs time only. */
function containsKey(value: unknown, key: string): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.hasOwn(value, key) || Object.values(value).some((entry) => containsKey(entry, key))
}

function compile(compiler: Ajv, schema: Schema): ValidateFunction {
  try {
    return compiler.compile(schema)
  } catch (error) {
    throw new SchemaRefused(`the parameter schema is not valid: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    })
  }
}

type Schema = boolean | { [key: string]: unknown }

function parseSchema(text: string): Schema {
  let schema: unknown
  try {
    schema = JSON.parse(text)
  } catch (error) {
    throw new SchemaRefused('the parameter schema is not valid JSON', { cause: error })
  }
  if (typeof schema === 'boolean' || (typeof schema === 'object' && schema !== null && !Array.isArray(schema))) return schema as Schema
  throw new SchemaRefused('the parameter schema must be a JSON object, true or false')
}

/** References name parts of the schema itself, so that nothing is ever fetched; every pattern must be possible, used or not. */
function requireSafe(value: unknown, depth: number): void {
  if (depth > depthMax) throw new SchemaRefused(`the parameter schema is nested deeper than ${depthMax}`)
  if (typeof value !== 'object' || value === null) return
  for (const [key, entry] of Object.entries(value)) {
    const isReference = key === '$ref' || key === '$dynamicRef' || key === '$recursiveRef'
    if (isReference && typeof entry === 'string' && !entry.startsWith('#'))
      throw new SchemaRefused(`the parameter schema refers to another document by ${key}: only references that start with # are possible`)
    if (key === 'pattern' && typeof entry === 'string') compilePattern(entry)
    if (key === 'patternProperties' && typeof entry === 'object' && entry !== null)
      for (const pattern of Object.keys(entry)) compilePattern(pattern)
    requireSafe(entry, depth + 1)
  }
}

const options: Options = {
  strict: false,
  allErrors: true,
  inlineRefs: false,
  addUsedSchema: false,
  logger: false,
  code: { regExp: Object.assign((pattern: string) => compilePattern(pattern), { code: 'compilePattern' }) },
}

type Draft = '04' | '07' | '2019-09' | '2020-12'
const compilers = new Map<Draft, Ajv>()

/** One per draft, because creating one takes longer than checking many schemas. It keeps no schema, so none can refer to another one. */
function getSharedCompiler(draft: Draft): Ajv {
  const compiler = compilers.get(draft) ?? createCompiler(draft)
  compilers.set(draft, compiler)
  return compiler
}

/** Draft 6 schemas are read as draft 7, which added keywords only; so is an unknown draft. */
function getDraft(schema: Schema): Draft {
  const value = typeof schema === 'object' ? schema['$schema'] : undefined
  const name = typeof value === 'string' ? value : ''
  if (name.includes('draft-04')) return '04'
  return name.includes('2019-09') ? '2019-09' : name.includes('2020-12') ? '2020-12' : '07'
}

function createCompiler(draft: Draft): Ajv {
  const compiler = createForDraft(draft)
  addFormats.default(compiler)
  compiler.compile({}) // compiles the schema of schemas
  return compiler
}

function createForDraft(draft: Draft): Ajv {
  if (draft === '04') return new Draft4.default(options)
  if (draft === '2019-09') return new Ajv2019(options)
  return draft === '2020-12' ? new Ajv2020(options) : new Ajv(options)
}

/** Prepares the most common draft, so that the first template does not wait for it. */
export function prepareSchemas(): void {
  getSharedCompiler('07')
}

function compilePattern(pattern: string): { readonly test: (text: string) => boolean } {
  try {
    return RE2JS.compile(pattern)
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    throw new SchemaRefused('a pattern is not possible in RE2 syntax, which has neither lookaround nor back references', { cause: error })
  }
}

function describeViolation({ instancePath, keyword, message, params }: ErrorObject): string {
  const place = instancePath === '' ? '' : `${instancePath}: `
  // Messages of these rules contain a value of the schema only.
  return `${place}${message ?? `violates ${keyword}`}${keyword === 'additionalProperties' ? `: ${String(params['additionalProperty'])}` : ''}`
}
