// Reads a request body by the kind of its endpoint: required JSON, optional JSON, or a manifest as JSON or raw YAML. The schema is
// checked afterwards (validate.ts).
import { isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { isCleanText, parseJson } from './json-text.ts'
import { announcesBody, type BodyLimits, readBody } from './read-body.ts'

export type BodyKind = NonNullable<Endpoint['bodyKind']>
export type ParsedBody = { readonly form: 'json'; readonly value: unknown } | { readonly form: 'yaml'; readonly text: string }

export interface BodyCaps {
  readonly bodyBytes: number
  readonly objectBodyBytes: number
}

/** Size limit of an endpoint's body: manifests have their own; status reports, plan results, joins and sign-ins have a fixed one. */
export function getBodyCap(
  { path, bodyKind }: Pick<Endpoint, 'path' | 'bodyKind'>,
  caps: BodyCaps,
): Pick<BodyLimits, 'capBytes' | 'capName'> {
  if (bodyKind === 'manifest' || /^\/api\/v1\/templates(\/\{\w+\})?$|\/from-template$/.test(path)) {
    return { capBytes: caps.objectBodyBytes, capName: 'limits.object_body_bytes' }
  }
  if (/^\/api\/v1\/agents\/\{\w+\}\/status$/.test(path)) return { capBytes: Math.min(caps.bodyBytes, 1024 * 1024), capName: 'status_bytes' }
  if (path === '/api/v1/plans/{id}/results') return { capBytes: Math.min(caps.bodyBytes, 1024 * 1024), capName: 'plan_result_bytes' }
  if (path === '/api/v1/join') return { capBytes: Math.min(caps.bodyBytes, 64 * 1024), capName: 'join_bytes' }
  if (path === '/api/v1/auth/exchange') return { capBytes: Math.min(caps.bodyBytes, 64 * 1024), capName: 'login_bytes' }
  return { capBytes: caps.bodyBytes, capName: 'limits.body_bytes' }
}

/** A received body, inflated. */
export interface ReceivedBody {
  readonly form: ParsedBody['form']
  readonly bytes: Uint8Array
}

export async function receiveBody(
  deps: { clock: Clock },
  request: IncomingMessage,
  rule: BodyLimits & { kind: BodyKind; needsType?: boolean },
): Promise<ReceivedBody & { readonly bytes: Buffer }> {
  try {
    const form = parseBodyForm(request, rule.kind)
    // A page of another origin can send a body without a type, but not with the JSON type.
    if (rule.needsType === true && announcesBody(request) && request.headers['content-type'] === undefined)
      throw unsupported('requests with a session need a Content-Type for their body')
    return { form, bytes: await readBody(deps, request, rule) }
  } catch (error) {
    throw rule.kind === 'manifest' ? toManifestError(error) : error
  }
}

/** All errors of a manifest body except its size have one code on the wire. */
export function toManifestError(error: unknown): unknown {
  if (!(error instanceof ApiError) || error.status === 413 || error.status >= 500) return error
  return new ApiError('invalid_deployment_object', error.message, {
    cause: error,
    ...(error.details === undefined ? {} : { details: error.details }),
  })
}

function parseBodyForm(request: IncomingMessage, kind: BodyKind): ParsedBody['form'] {
  const { mediaType, charset } = parseContentType(request.headers['content-type'])
  if (charset !== null && charset !== 'utf-8' && charset !== 'utf8') throw unsupported('the charset of the body must be utf-8')
  if (kind === 'manifest') return yamlTypes.has(mediaType) ? 'yaml' : 'json'
  const isJson = mediaType === '' || mediaType === 'application/json' || /^application\/[\w.-]+\+json$/.test(mediaType)
  if (!isJson && announcesBody(request)) throw unsupported('the Content-Type of the body must be application/json')
  return 'json'
}

const yamlTypes: ReadonlySet<string> = new Set(['application/yaml', 'text/yaml', 'application/x-yaml'])

/** A missing type means JSON. */
function parseContentType(header: string | undefined): { mediaType: string; charset: string | null } {
  const [mediaType = '', ...parameters] = (header ?? '').split(';').map((part) => part.trim().toLowerCase())
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  return { mediaType, charset: charset === undefined ? null : charset.slice('charset='.length).replaceAll('"', '') }
}

const unsupported = (message: string): ApiError => new ApiError('unsupported_media_type', message)

/** Raw YAML has no field for the deletion marker; it is in the query. */
export const toSubmission = (parsed: ParsedBody, isDeletionMarker: boolean): unknown =>
  parsed.form === 'json' ? parsed.value : { yaml_content: parsed.text, is_deletion_marker: isDeletionMarker }

export function decodeBody({ bytes, form }: { form: ParsedBody['form']; bytes: Buffer }, kind: BodyKind): ParsedBody {
  const text = utf8(bytes, form)
  if (form === 'yaml') {
    if (!isCleanText(text)) throw new ApiError('validation_failed', 'the body contains a NUL character')
    return { form, text }
  }
  if (text.trim() !== '') return { form, value: parseJson(text, { isExact: kind === 'exact' }) }
  if (kind === 'optional') return { form, value: {} }
  throw new ApiError('invalid_json', 'the body is empty; this operation needs JSON')
}

/** A byte order mark is kept in a manifest and dropped before JSON. Not by a TextDecoder: creating one costs more than all other work
 *  on a small body. */
function utf8(bytes: Buffer, form: ParsedBody['form']): string {
  if (!isUtf8(bytes)) throw new ApiError('invalid_json', 'the body is not valid UTF-8')
  const text = bytes.toString('utf8')
  return form === 'json' && text.startsWith(byteOrderMark) ? text.slice(1) : text
}
const byteOrderMark = '\uFEFF'

/** Two requests are equal if their query and body are equal after validation. */
export const hashBody = (query: string, body: unknown): string => hash('sha256', `${query}\n${JSON.stringify(body) ?? ''}`)
