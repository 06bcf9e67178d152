// Jobs on a template: check its source and schema, render it with parameters. Pure, so that they run in a worker. Rejections are returned as
// data, because error classes are lost between threads.
import type { ErrorCode } from '@brokkr/contract/errors.ts'
import { parseTemplate } from './language/parse-template.ts'
import { renderTemplate } from './language/render.ts'
import { RenderError, TemplateSyntaxError } from './language/template-errors.ts'
import { parseParameters } from './language/values.ts'
import { checkSchema, listViolations, SchemaRefused, schemaBytesMax } from './parameter-schema.ts'

export type TemplateJob =
  | { readonly do: 'check'; readonly source: string; readonly schema: string }
  | ({ readonly do: 'render' } & Rendering)

export interface Rendering {
  readonly source: string
  readonly schema: string
  /** JSON with numbers as they were sent. */
  readonly parameters: string
  /** The instant that the function now() returns, in RFC 3339. */
  readonly renderedAt: string
  readonly outputBytesMax: number
}

export type TemplateOutcome =
  | { readonly is: 'accepted' }
  | { readonly is: 'rendered'; readonly text: string }
  | { readonly is: 'refused'; readonly code: ErrorCode; readonly message: string; readonly details: Record<string, unknown> | null }

/** Throws `invalid_template_syntax`, `invalid_parameters_schema`, `invalid_parameters`, `template_render_failed`, or `overloaded` if too
 *  many jobs wait. */
export interface TemplateWork {
  check(source: string, schema: string): Promise<void>
  render(rendering: Rendering): Promise<string>
}

const sourceBytesMax = 2 * 1024 * 1024
const parameterBytesMax = 256 * 1024

export function doTemplateJob(job: TemplateJob): TemplateOutcome {
  try {
    return job.do === 'check' ? check(job.source, job.schema) : render(job)
  } catch (error) {
    const refusal = toRefusal(error)
    if (refusal === null) throw error
    return refusal
  }
}

function check(source: string, schema: string): TemplateOutcome {
  if (source.trim() === '') return refuse('invalid_template_syntax', 'the template is empty')
  if (Buffer.byteLength(source) > sourceBytesMax)
    return refuseSize('invalid_template_syntax', 'the template', 'template_bytes', sourceBytesMax)
  parseTemplate(source)
  if (Buffer.byteLength(schema) > schemaBytesMax)
    return refuseSize('invalid_parameters_schema', 'the parameter schema', 'schema_bytes', schemaBytesMax)
  checkSchema(schema)
  return { is: 'accepted' }
}

function render({ source, schema, parameters, renderedAt, outputBytesMax }: Rendering): TemplateOutcome {
  const violations = findViolations(schema, parameters)
  if (violations.length > 0)
    return refuse('invalid_parameters', 'the parameters do not fit the schema of the template', { validation_errors: violations })
  const text = renderTemplate(parseTemplate(source), {
    parameters: parseParameters(parameters),
    now: new Date(renderedAt),
    limits: { outputBytes: outputBytesMax },
  })
  // PostgreSQL and YAML store no NUL.
  return text.includes('\0') ? refuse('template_render_failed', 'the rendered text contains a NUL character') : { is: 'rendered', text }
}

function findViolations(schema: string, parameters: string): string[] {
  if (Buffer.byteLength(parameters) > parameterBytesMax) return [`must have at most ${parameterBytesMax} bytes of JSON`]
  const value: unknown = JSON.parse(parameters)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return ['must be object']
  return listViolations(schema, value)
}

function toRefusal(error: unknown): TemplateOutcome | null {
  if (error instanceof TemplateSyntaxError) return refuse('invalid_template_syntax', error.message, { ...error.at })
  if (error instanceof SchemaRefused) return refuse('invalid_parameters_schema', error.message)
  if (error instanceof RenderError) return refuse('template_render_failed', error.message)
  // A schema that refers to itself without end, or a text beyond the longest possible one.
  if (error instanceof RangeError) return refuse('template_render_failed', 'the template or its schema needs more memory than allowed')
  return null
}

function refuse(code: ErrorCode, message: string, details: Record<string, unknown> | null = null): TemplateOutcome {
  return { is: 'refused', code, message, details }
}

const refuseSize = (code: ErrorCode, what: string, limit: string, max: number): TemplateOutcome =>
  refuse(code, `${what} is larger than ${max} bytes`, { limit, max })
