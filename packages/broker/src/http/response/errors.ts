// Maps errors to responses {code, message, details?} with a code of the contract. Database errors are mapped by SQLSTATE, never by text.
// An unexpected error becomes `internal_error` with the request id, and is logged once with its cause.
import { ApiError, type ErrorCode, errorStatus } from '@brokkr/contract/errors.ts'
import { NotFound } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { toDatabaseError } from './database-error.ts'

export interface ErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Empty for 401. */
  readonly body: string
}

export interface FailedRequest {
  readonly requestId: string
  /** Route pattern, so that a log line contains no id or PAK from the path. */
  readonly endpoint: string
  readonly method: string
}

export function toErrorResponse(deps: { log: Log }, error: unknown, request: FailedRequest): ErrorResponse {
  const apiError = asApiError(error)
  if (apiError === null) deps.log.error('request failed', { ...request, error: error instanceof Error ? error : new Error(String(error)) })
  return toResponse(apiError ?? unexpected(request.requestId))
}

/** The API error for an expected error; null for an unexpected one. */
function asApiError(error: unknown): ApiError | null {
  if (error instanceof ApiError) return error
  if (error instanceof NotFound)
    return new ApiError(missingCode(error.kind), `no ${error.kind.replaceAll('_', ' ')} has this id`, { cause: error })
  return toDatabaseError(error)
}

export function toResponse(error: ApiError): ErrorResponse {
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
  return new ApiError('internal_error', 'unexpected error; the operator finds its cause in the log by this request id', {
    details: { request_id: requestId },
  })
}
