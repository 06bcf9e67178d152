// Errors of calls: what the broker answered, or why no answer came. Both say what to do next.
import type { ErrorCode } from '@brokkr/contract/errors.ts'

/** An answer that is an error. `code` never changes between releases; a newer broker may send codes that this client does not know. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly status: number
  readonly details: Readonly<Record<string, unknown>> | undefined
  readonly retryAfterSeconds: number | undefined
  /** Identifies the request in the log of the broker. */
  readonly requestId: string | undefined
  /** False: the answer had no error body, so a proxy may have written it, and the code is a guess by status. */
  readonly hasBody: boolean
  /** What to do, in one sentence. */
  readonly next: string

  constructor(code: ErrorCode, message: string, answer: ApiErrorAnswer) {
    super(message)
    this.code = code
    this.status = answer.status
    this.details = answer.details
    this.retryAfterSeconds = answer.retryAfterSeconds
    this.requestId = answer.requestId
    this.hasBody = answer.hasBody
    this.next = findNextStep(this)
  }
}

interface ApiErrorAnswer {
  readonly status: number
  readonly hasBody: boolean
  readonly details?: Record<string, unknown> | undefined
  readonly retryAfterSeconds?: number | undefined
  readonly requestId?: string | undefined
}

/** No answer arrived: the broker could not be reached, or it did not answer in time. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
  readonly url: string
  readonly next = 'check that the broker runs, and its address'

  constructor(url: string, cause: Error) {
    super(`no answer from ${url}: ${cause.message}`, { cause })
    this.url = url
  }
}

const nextByCode: Partial<Record<ErrorCode, string>> = {
  unauthorized: 'check the PAK, or sign in again',
  admin_required: 'use an admin PAK',
  readonly: 'use a PAK that is not read-only',
  scope_denied: 'use a PAK with the verb that the message names',
  stack_moved: 'read the stack again, then decide anew',
  precondition_failed: 'read the resource again, then repeat the change',
  secret_already_issued: 'the first answer contained the secret; rotate it if that answer is lost',
  unique_violation: 'choose another name, or use the existing resource',
  invalid_cursor: 'read the list from its start',
  bad_cursor: 'watch without a cursor and read everything once',
  rate_limited: 'wait for the time in Retry-After, then try again',
  overloaded: 'wait for the time in Retry-After, then try again',
  agent_image_unset: 'set broker.agent_image in the configuration of the broker',
  pipelines_unavailable: 'check that the pipelines program runs, and the settings broker.pipelines_url and broker.pipelines_key',
  preview_unavailable: 'check that the preview program runs, and the setting broker.preview_url',
}

function findNextStep({ code, status, details }: Pick<ApiError, 'code' | 'status' | 'details'>): string {
  const fromBroker = details?.['next']
  if (typeof fromBroker === 'string' && fromBroker !== '') return fromBroker
  const known = nextByCode[code]
  if (known !== undefined) return known
  if (status === 404) return 'check the name; list the resources that exist'
  if (status === 403) return 'use a PAK that may do this'
  if (status >= 500) return 'try again; if it stays, look for the request id in the log of the broker'
  return 'correct the request as the message says'
}

interface AnswerHead {
  readonly status: number
  readonly header: (name: string) => string | null
}

/** Also maps a response that a proxy wrote (HTML, empty body) to an error with a known code. */
export function readApiError({ status, header }: AnswerHead, text: string): ApiError {
  const retryAfter = header('retry-after')
  const head = {
    status,
    requestId: header('x-request-id') ?? undefined,
    retryAfterSeconds: retryAfter !== null && /^\d{1,6}$/.test(retryAfter) ? Number(retryAfter) : undefined,
  }
  const body = parseErrorBody(text)
  if (body === null)
    return new ApiError(guessCode(status), `the broker answered ${status} without an error body`, {
      ...head,
      hasBody: false,
      details: { status },
    })
  return new ApiError(body.code as ErrorCode, body.message, { ...head, hasBody: true, details: body.details })
}

function parseErrorBody(text: string): { code: string; message: string; details: Record<string, unknown> | undefined } | null {
  const value = parseOrNull(text)
  if (typeof value !== 'object' || value === null) return null
  const { code, message, details } = value as Record<string, unknown>
  if (typeof code !== 'string' || typeof message !== 'string') return null
  return { code, message, details: typeof details === 'object' && details !== null ? (details as Record<string, unknown>) : undefined }
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const codeByStatus: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'route_not_found',
  405: 'method_not_allowed',
  413: 'payload_too_large',
  429: 'rate_limited',
}
const guessCode = (status: number): ErrorCode => codeByStatus[status] ?? (status >= 500 ? 'overloaded' : 'invalid_request_body')
