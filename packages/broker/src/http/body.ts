// A request's body by the kind its endpoint has: JSON that must be there, JSON that may be left out, or a manifest as JSON
// or raw YAML. The shape is checked afterwards (validate.ts).
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { isCleanText, parseJson } from './json-text.ts'
import { announcesBody, type BodyLimits, readBody } from './read-body.ts'

export type BodyKind = NonNullable<Endpoint['bodyKind']>
export type ParsedBody = { readonly form: 'json'; readonly value: unknown } | { readonly form: 'yaml'; readonly text: string }

export interface BodyCaps {
  readonly bodyBytes: number
  readonly objectBodyBytes: number
}

/** The cap of an endpoint's body: manifests have their own, a status report and a join are small whatever the setting says. */
export function capOf({ path, bodyKind }: Pick<Endpoint, 'path' | 'bodyKind'>, caps: BodyCaps): Pick<BodyLimits, 'capBytes' | 'capName'> {
  if (bodyKind === 'manifest' || /^\/api\/v1\/templates(\/\{\w+\})?$|\/from-template$/.test(path)) {
    return { capBytes: caps.objectBodyBytes, capName: 'limits.object_body_bytes' }
  }
  if (/^\/api\/v1\/agents\/\{\w+\}\/status$/.test(path)) return { capBytes: Math.min(caps.bodyBytes, 1024 * 1024), capName: 'status_bytes' }
  if (path === '/api/v1/join') return { capBytes: Math.min(caps.bodyBytes, 64 * 1024), capName: 'join_bytes' }
  return { capBytes: caps.bodyBytes, capName: 'limits.body_bytes' }
}

export async function parseBody(
  deps: { clock: Clock },
  request: IncomingMessage,
  rule: BodyLimits & { kind: BodyKind; needsType?: boolean },
): Promise<ParsedBody> {
  try {
    const form = formOf(request, rule.kind)
    // A foreign page can send a body without a type; it cannot send one with JSON's.
    if (rule.needsType === true && announcesBody(request) && request.headers['content-type'] === undefined)
      throw unsupported('a session must send the Content-Type of its body')
    return decode(await readBody(deps, request, rule), form, rule.kind)
  } catch (error) {
    throw rule.kind === 'manifest' ? asManifestFault(error) : error
  }
}

/** Whatever is wrong with a manifest's body but its size has one code on the wire. */
export function asManifestFault(error: unknown): unknown {
  if (!(error instanceof ApiError) || error.status === 413 || error.status >= 500) return error
  return new ApiError('invalid_deployment_object', error.message, {
    cause: error,
    ...(error.details === undefined ? {} : { details: error.details }),
  })
}

function formOf(request: IncomingMessage, kind: BodyKind): ParsedBody['form'] {
  const { mediaType, charset } = contentTypeOf(request.headers['content-type'])
  if (charset !== null && charset !== 'utf-8' && charset !== 'utf8') throw unsupported('the charset of the body must be utf-8')
  if (kind === 'manifest') return yamlTypes.has(mediaType) ? 'yaml' : 'json'
  const isJson = mediaType === '' || mediaType === 'application/json' || /^application\/[\w.-]+\+json$/.test(mediaType)
  if (!isJson && announcesBody(request)) throw unsupported('the Content-Type of the body must be application/json')
  return 'json'
}

const yamlTypes: ReadonlySet<string> = new Set(['application/yaml', 'text/yaml', 'application/x-yaml'])

/** No type at all is read as JSON. */
function contentTypeOf(header: string | undefined): { mediaType: string; charset: string | null } {
  const [mediaType = '', ...parameters] = (header ?? '').split(';').map((part) => part.trim().toLowerCase())
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))
  return { mediaType, charset: charset === undefined ? null : charset.slice('charset='.length).replaceAll('"', '') }
}

const unsupported = (message: string): ApiError => new ApiError('unsupported_media_type', message)

function decode(bytes: Buffer, form: ParsedBody['form'], kind: BodyKind): ParsedBody {
  const text = utf8(bytes, form)
  if (form === 'yaml') {
    if (!isCleanText(text)) throw new ApiError('validation_failed', 'the body holds a NUL character')
    return { form, text }
  }
  if (text.trim() !== '') return { form, value: parseJson(text) }
  if (kind === 'optional') return { form, value: {} }
  throw new ApiError('invalid_json', 'the body is empty; this operation needs JSON')
}

/** A byte order mark is part of a manifest's exact text, and noise before JSON. Not by a TextDecoder: making one costs more than
 *  everything else that is done with a small body. */
function utf8(bytes: Buffer, form: ParsedBody['form']): string {
  if (!isUtf8(bytes)) throw new ApiError('invalid_json', 'the body is not valid UTF-8')
  const text = bytes.toString('utf8')
  return form === 'json' && text.startsWith(byteOrderMark) ? text.slice(1) : text
}
const byteOrderMark = '\uFEFF'
