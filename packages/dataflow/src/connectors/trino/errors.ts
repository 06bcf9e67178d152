// Classifies failures of Trino. Pure. Texts about a value contain it, so for records only the name of the error is kept.
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { ConnectorError, type ErrorClass, type ErrorType } from '../connector.ts'

/** As in an answer of the server. */
export interface QueryError {
  readonly message?: string
  readonly errorName?: string
  readonly errorType?: string
}

export class TrinoQueryFailed extends Error {
  override name = 'TrinoQueryFailed'
  readonly error: QueryError
  constructor(error: QueryError) {
    super(error.errorName ?? 'error')
    this.error = error
  }
}

/** An answer that is not 200. */
export class TrinoRejection extends Error {
  override name = 'TrinoRejection'
  readonly status: number
  readonly retryAfterMs: number | undefined
  constructor(status: number, retryAfterMs?: number) {
    super(`HTTP ${status}`)
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

interface Kind {
  readonly class: ErrorClass
  readonly type: ErrorType
}
const transient = (type: ErrorType = 'transient'): Kind => ({ class: 'transient', type })

const recordErrors: ReadonlySet<string> = new Set([
  'INVALID_CAST_ARGUMENT',
  'NUMERIC_VALUE_OUT_OF_RANGE',
  'CONSTRAINT_VIOLATION',
  'INVALID_LITERAL',
  'INVALID_FUNCTION_ARGUMENT',
])
const authErrors: ReadonlySet<string> = new Set(['PERMISSION_DENIED', 'INVALID_CREDENTIALS'])
const passing = /transient|please retry|worker node|node has crashed|node is .*gone|too much load|could not communicate/i

export function classifyQueryError({ errorName = '', errorType = '', message = '' }: QueryError): Kind {
  if (recordErrors.has(errorName))
    return { class: 'record', type: errorName === 'CONSTRAINT_VIOLATION' ? 'constraint_violation' : 'invalid_data' }
  if (authErrors.has(errorName)) return { class: 'config', type: 'auth_error' }
  if (errorName === 'EXCEEDED_TIME_LIMIT') return transient('timeout')
  if (errorName === 'TOO_MANY_REQUESTS_FAILED' || errorType === 'INSUFFICIENT_RESOURCES' || errorType === 'EXTERNAL') return transient()
  if (passing.test(message)) return transient()
  if (errorType === 'USER_ERROR') return { class: 'config', type: 'unknown' }
  return { class: 'unknown', type: 'unknown' }
}

/** `doing` completes "cannot …". */
export function toTrinoError(thrown: unknown, doing: string): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  if (thrown instanceof TrinoQueryFailed) {
    const kind = classifyQueryError(thrown.error)
    const { errorName = 'error', message = '' } = thrown.error
    const detail = kind.class === 'record' ? '' : `: ${message.split('\n')[0]!.slice(0, 300)}`
    return new ConnectorError(kind, `cannot ${doing}: ${errorName}${detail}`)
  }
  if (thrown instanceof TrinoRejection) {
    const { status, retryAfterMs } = thrown
    return new ConnectorError({ ...classifyStatus(status), retryAfterMs }, `cannot ${doing}: HTTP ${status}`)
  }
  const message = thrown instanceof Error ? thrown.message : 'unknown error'
  const toError = (kind: Kind) => new ConnectorError(kind, `cannot ${doing}: ${message}`, { cause: thrown })
  if (thrown instanceof Terminal) return toError({ class: 'config', type: 'connection_error' })
  if (thrown instanceof Error && /^(Abort|Timeout)Error$/.test(thrown.name))
    return toError({ class: 'transient', type: 'context_canceled' })
  if (thrown instanceof Retryable) return toError(transient(thrown.code === 'timeout' ? 'timeout' : 'connection_error'))
  return toError({ class: 'unknown', type: 'unknown' })
}

function classifyStatus(status: number): Kind {
  if (status === 401 || status === 403) return { class: 'config', type: 'auth_error' }
  return status === 408 || status === 429 || status >= 500 ? transient() : { class: 'config', type: 'unknown' }
}
