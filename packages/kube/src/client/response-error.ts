// Turns an error response into a KubeError: a Status object, plain text, or a page that is not from an API server. Pure.

import { fieldsAt, isFields, numberAt, rowsAt, textAt } from './fields.ts'
import { decodeJson } from './json.ts'
import { type KubeDetails, KubeError, type KubeReason } from './kube-error.ts'

export interface KubeResponse {
  status: number
  headers: Readonly<Record<string, string | string[] | undefined>>
  text: string
}

/** Converts a response with a status of 300 or more. `what` names the call: `PATCH https://…`. */
export function toKubeError(what: string, answer: KubeResponse): KubeError {
  const status = parseStatus(answer.text)
  if (!status) return toForeignResponseError(what, answer)
  return toStatusError(what, status, answer.status, parseRetryAfter(answer.headers))
}

/** Converts a Status object of a response or of a watch's ERROR event. */
export function toStatusError(what: string, status: unknown, code = numberAt(status, 'code') ?? 500, retryAfterMs?: number): KubeError {
  const seconds = numberAt(status, 'details', 'retryAfterSeconds')
  const message = textAt(status, 'message')
  const isMistyped = code === 500 && MISTYPED.test(message ?? '')
  return new KubeError(`${what}: ${clip(message ?? `HTTP ${code}`)}`, {
    reason: isMistyped ? 'Invalid' : parseReason(textAt(status, 'reason'), code),
    status: isMistyped ? 422 : code,
    retryAfterMs: retryAfterMs ?? (seconds === undefined ? undefined : seconds * 1000),
    details: parseDetails(status),
  })
}

/** Server-side apply answers 500 for a field of the wrong type. A retry cannot help, because the object is wrong. A failing conversion
 *  webhook has another message and stays a server failure. */
const MISTYPED =
  /^failed to create typed (patch|live|new) object\b|^failed to convert new object \(.*\) to proper version: unable to convert unstructured object/

function parseStatus(text: string): unknown {
  try {
    const value = decodeJson(text)
    return isFields(value) && value['kind'] === 'Status' ? value : undefined
  } catch {
    return undefined
  }
}

function toForeignResponseError(what: string, answer: KubeResponse): KubeError {
  const plain = /^(text\/plain|application\/json)/.test(String(answer.headers['content-type'] ?? 'text/plain'))
  // Plain text with a known code is from the API server (429, 503 during startup); a redirect or HTML page is from another server.
  if (plain && answer.status >= 400)
    return new KubeError(`${what}: HTTP ${answer.status}: ${clip(answer.text.trim(), 300)}`, {
      reason: parseReason(undefined, answer.status),
      status: answer.status,
      retryAfterMs: parseRetryAfter(answer.headers),
    })
  return notAnApiServer(what, answer)
}

/** For a response that is not from an API server, such as a login page. */
export function notAnApiServer(what: string, answer: KubeResponse): KubeError {
  const type = String(answer.headers['content-type'] ?? 'no content type')
  return new KubeError(
    `${what}: HTTP ${answer.status} with ${type} instead of JSON. The response is not from a Kubernetes API server but, for example, from a proxy or a login page; check the server address of the kubeconfig`,
    // A 5xx page of a load balancer is temporary; other pages stay until the address is corrected.
    {
      reason: answer.status >= 500 ? parseReason(undefined, answer.status) : 'BadAnswer',
      status: answer.status,
      retryAfterMs: parseRetryAfter(answer.headers),
    },
  )
}

const BY_CODE: Readonly<Record<number, KubeReason>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  406: 'NotAcceptable',
  408: 'Timeout',
  409: 'Conflict',
  410: 'Gone',
  413: 'RequestEntityTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  502: 'ServiceUnavailable',
  503: 'ServiceUnavailable',
  504: 'Timeout',
}

const KNOWN: ReadonlySet<string> = new Set([...Object.values(BY_CODE), 'AlreadyExists', 'Expired', 'ServerTimeout', 'StoreReadError'])

function parseReason(text: string | undefined, code: number): KubeReason {
  if (text !== undefined && KNOWN.has(text)) return text as KubeReason
  return BY_CODE[code] ?? 'Unknown'
}

function parseDetails(status: unknown): KubeDetails {
  const details = fieldsAt(status, 'details')
  return {
    name: textAt(details, 'name'),
    group: textAt(details, 'group'),
    kind: textAt(details, 'kind'),
    causes: rowsAt(details, 'causes')
      .slice(0, 100)
      .map((cause) => ({
        reason: textAt(cause, 'reason'),
        message: textAt(cause, 'message'),
        field: textAt(cause, 'field'),
      })),
  }
}

function parseRetryAfter(headers: KubeResponse['headers']): number | undefined {
  const value = String(headers['retry-after'] ?? '').trim()
  if (/^\d{1,6}$/.test(value)) return Number(value) * 1000
  const date = value === '' ? Number.NaN : Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now())
}

const clip = (text: string, max = 4096): string => (text.length > max ? `${text.slice(0, max)}…` : text)
