// What a client reads when something went wrong: {code, message, details?} from the closed catalogue. PostgreSQL is read by
// SQLSTATE, never by its text; whatever nobody expected is `internal_error` with the request's id, logged once with its cause.
import { ApiError, type ErrorCode, errorStatus } from '@brokkr/contract/error.ts'
import { NotFound } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { fromDatabase } from './database-error.ts'

export interface ErrorAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Empty for 401, which tells nothing. */
  readonly body: string
}

export interface FailedRequest {
  readonly requestId: string
  /** Route pattern, so that a log line holds no id or key from the path. */
  readonly endpoint: string
  readonly method: string
}

export function errorAnswer(deps: { log: Log }, error: unknown, request: FailedRequest): ErrorAnswer {
  const known = asApiError(error)
  if (known === null) deps.log.error('request failed', { ...request, error: error instanceof Error ? error : new Error(String(error)) })
  return answerOf(known ?? unexpected(request.requestId))
}

/** The error the catalogue has for it; null for what nobody expected. */
export function asApiError(error: unknown): ApiError | null {
  if (error instanceof ApiError) return error
  if (error instanceof NotFound)
    return new ApiError(missingCode(error.kind), `no ${error.kind.replaceAll('_', ' ')} has this id`, { cause: error })
  return fromDatabase(error)
}

export function answerOf(error: ApiError): ErrorAnswer {
  if (error.code === 'unauthorized') return { status: 401, headers: { 'www-authenticate': 'Bearer', 'content-length': '0' }, body: '' }
  const hasDetails = error.details !== undefined && Object.keys(error.details).length > 0
  const body = JSON.stringify({ code: error.code, message: error.message, ...(hasDetails ? { details: error.details } : {}) })
  const retryAfter = error.retryAfterSeconds ?? (error.status === 503 ? 1 : undefined)
  return {
    status: error.status,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
    },
    body,
  }
}

function missingCode(kind: string): ErrorCode {
  const code = `${kind}_not_found`
  return code in errorStatus ? (code as ErrorCode) : 'not_found'
}

function unexpected(requestId: string): ApiError {
  return new ApiError('internal_error', 'something unexpected happened; the operator finds it in the log under this request id', {
    details: { request_id: requestId },
  })
}
