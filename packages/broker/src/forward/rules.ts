// Requests to and answers from the pipelines and preview programs: signature and translation of errors. Pure.
import { createHash, createHmac } from 'node:crypto'
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'

// Translates answers of the pipelines and preview programs into the broker's errors. Pure.

export interface ForwardedAnswer {
  readonly status: number
  readonly text: string
  readonly nextCursor: string | null
  readonly retryAfter: string | null
}

const textMax = 1_000

/** Codes of refusals that concern the request itself. */
const refusals: Readonly<Record<number, ErrorCode>> = {
  400: 'validation_failed',
  403: 'forbidden',
  404: 'not_found',
  409: 'promotion_conflict',
  413: 'payload_too_large',
  422: 'validation_failed',
  429: 'rate_limited',
}

/** Returns the answer of a success and throws ApiError for any other. */
export function requirePipelinesSuccess(answer: ForwardedAnswer): ForwardedAnswer {
  const { status } = answer
  if (status >= 200 && status < 300) return answer
  const { message, details } = readRefusal(answer.text)
  if (status === 400 && message.includes('cursor')) throw new ApiError('invalid_cursor', message)
  if (status === 422 && message.startsWith('Idempotency-Key was used')) throw new ApiError('idempotency_key_reused', message)
  const code = refusals[status]
  if (code !== undefined) throw new ApiError(code, message, { ...toOptions(answer), ...(details === undefined ? {} : { details }) })
  const why =
    status === 401
      ? `it does not accept the signature (${message}): compare broker.pipelines_key with pipelines.vouching_keys, and the clocks`
      : `it answered ${status}: ${message}`
  throw new ApiError('pipelines_unavailable', `the pipelines program cannot serve the request: ${why}`, toOptions(answer))
}

/** A flow with problems is the caller's error; its problems are in the details. */
export function requirePreviewSuccess(answer: ForwardedAnswer): ForwardedAnswer {
  const { status } = answer
  if (status === 200) return answer
  const { problems, warnings, message } = (parseOrNull(answer.text) ?? {}) as Record<string, unknown>
  const text = typeof message === 'string' ? message.slice(0, textMax) : 'the flow is invalid'
  if (status === 413) throw new ApiError('payload_too_large', text)
  if (status === 400 || status === 422)
    throw new ApiError('validation_failed', text, Array.isArray(problems) ? { details: { problems, warnings } } : {})
  throw new ApiError('preview_unavailable', `the preview program cannot serve the request: it answered ${status}`)
}

function toOptions({ status, retryAfter }: ForwardedAnswer): { status?: number; retryAfterSeconds?: number } {
  const isSeconds = retryAfter !== null && /^\d{1,6}$/.test(retryAfter)
  return { ...(status === 400 ? { status: 422 } : {}), ...(isSeconds ? { retryAfterSeconds: Number(retryAfter) } : {}) }
}

/** Refusals are plain text, or JSON with the text in `error`. */
function readRefusal(text: string): { message: string; details?: Record<string, unknown> } {
  const { error, ...details } = (parseOrNull(text) ?? {}) as Record<string, unknown>
  if (typeof error === 'string') return { message: error.slice(0, textMax), details }
  return { message: text.trim().slice(0, textMax) || 'no reason was given' }
}

function parseOrNull(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

// Signs a request to the pipelines program with the vouching key: the program then believes the name in X-Approver. Pure.

export interface UnsignedRequest {
  readonly method: 'GET' | 'POST'
  /** Path and query as sent. */
  readonly target: string
  readonly body: string
  readonly approver: string
  readonly timestampSeconds: number
  readonly nonce: string
}

export function signRequest(request: UnsignedRequest, key: string): Record<string, string> {
  const { method, target, body, nonce } = request
  const timestamp = String(request.timestampSeconds)
  const approver = toHeaderText(request.approver)
  const bodyHash = createHash('sha256').update(body).digest('hex')
  const text = [method, target, timestamp, nonce, bodyHash, approver].join('\n')
  return {
    'x-signature': `sha256=${createHmac('sha256', key).update(text).digest('hex')}`,
    'x-signature-timestamp': timestamp,
    'x-signature-nonce': nonce,
    'x-approver': approver,
  }
}

/** A header carries ASCII: other characters of a name, and the percent sign that marks them, are percent-encoded. */
const toHeaderText = (name: string): string => name.replace(/[^\x20-\x24\x26-\x7e]/gu, (character) => encodeURIComponent(character))
