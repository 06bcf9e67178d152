// Turns what came back from a server into a KubeError: a Status object, a plain text, or a page that no API server wrote. Pure.
import { type KubeDetails, KubeError, type KubeReason } from './api-error.ts'
import { fieldsAt, isFields, numberAt, rowsAt, textAt } from './fields.ts'
import { decodeJson } from './json.ts'

export interface Answer {
  status: number
  headers: Readonly<Record<string, string | string[] | undefined>>
  text: string
}

/** Turns an answer of 300 or more into its error. `what` says which call it was: `PATCH https://…`. */
export function errorOfAnswer(what: string, answer: Answer): KubeError {
  const status = parseStatus(answer.text)
  if (!status) return errorOfForeignAnswer(what, answer)
  return errorOfStatus(what, status, answer.status, retryAfterOf(answer.headers))
}

/** From a Status object, as it comes in an answer or in an ERROR event of a watch. */
export function errorOfStatus(what: string, status: unknown, code = numberAt(status, 'code') ?? 500, retryAfterMs?: number): KubeError {
  const seconds = numberAt(status, 'details', 'retryAfterSeconds')
  const message = textAt(status, 'message')
  const isMistyped = code === 500 && MISTYPED.test(message ?? '')
  return new KubeError(`${what}: ${clip(message ?? `HTTP ${code}`)}`, {
    reason: isMistyped ? 'Invalid' : reasonOf(textAt(status, 'reason'), code),
    status: isMistyped ? 422 : code,
    retryAfterMs: retryAfterMs ?? (seconds === undefined ? undefined : seconds * 1000),
    details: detailsOf(status),
  })
}

/** Server-side apply answers 500 for a field of the wrong type or form, which no retry mends: the fault is in the object. A failing
 *  conversion webhook words it otherwise and stays a failure of the server. */
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

function errorOfForeignAnswer(what: string, answer: Answer): KubeError {
  const plain = /^(text\/plain|application\/json)/.test(String(answer.headers['content-type'] ?? 'text/plain'))
  // A known code in plain text is still the API server's (429, 503 while starting); a redirect or a page is somebody else's.
  if (plain && answer.status >= 400)
    return new KubeError(`${what}: HTTP ${answer.status}: ${clip(answer.text.trim(), 300)}`, {
      reason: reasonOf(undefined, answer.status),
      status: answer.status,
      retryAfterMs: retryAfterOf(answer.headers),
    })
  return notTheApiServer(what, answer)
}

/** An answer that no API server gives, such as a login page. */
export function notTheApiServer(what: string, answer: Answer): KubeError {
  const type = String(answer.headers['content-type'] ?? 'no content type')
  return new KubeError(
    `${what}: HTTP ${answer.status} with ${type} instead of JSON. Something else than a Kubernetes API server answered, such as a proxy or a login page; check the server address of the kubeconfig`,
    // 5xx pages of a load balancer pass; anything else stays until somebody mends the address.
    {
      reason: answer.status >= 500 ? reasonOf(undefined, answer.status) : 'BadAnswer',
      status: answer.status,
      retryAfterMs: retryAfterOf(answer.headers),
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

function reasonOf(text: string | undefined, code: number): KubeReason {
  if (text !== undefined && KNOWN.has(text)) return text as KubeReason
  return BY_CODE[code] ?? 'Unknown'
}

function detailsOf(status: unknown): KubeDetails {
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

function retryAfterOf(headers: Answer['headers']): number | undefined {
  const value = String(headers['retry-after'] ?? '').trim()
  if (/^\d{1,6}$/.test(value)) return Number(value) * 1000
  const date = value === '' ? Number.NaN : Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now())
}

const clip = (text: string, max = 4096): string => (text.length > max ? `${text.slice(0, max)}…` : text)
