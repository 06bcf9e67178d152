// Classifies failures of an Iceberg catalog and of its object store. Pure. Answers of servers may contain keys, so only their kind and a
// short text are kept.
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { ConnectorError, type ErrorClass, type ErrorType } from '../connector.ts'

/** An answer of the catalog or the object store that is not a success. */
export class IcebergRejection extends Error {
  override name = 'IcebergRejection'
  readonly server: 'catalog' | 'object store'
  readonly status: number
  /** `NoSuchTableException`, `AccessDenied`. */
  readonly kind: string
  readonly retryAfterMs: number | undefined
  constructor(
    server: 'catalog' | 'object store',
    answer: { readonly status: number; readonly kind?: string; readonly text?: string; readonly retryAfterMs?: number | undefined },
  ) {
    super(`the ${server} answered ${answer.status}${answer.kind ? ` ${answer.kind}` : ''}${answer.text ? `: ${answer.text}` : ''}`)
    this.server = server
    this.status = answer.status
    this.kind = answer.kind ?? ''
    this.retryAfterMs = answer.retryAfterMs
  }
}

interface Kind {
  readonly class: ErrorClass
  readonly type: ErrorType
}

/** `doing` completes "cannot …". */
export function toIcebergError(thrown: unknown, doing: string): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  const message = thrown instanceof Error ? thrown.message : 'unknown error'
  const toError = (kind: Kind, retryAfterMs?: number) =>
    new ConnectorError({ ...kind, retryAfterMs }, `cannot ${doing}: ${message}`, { cause: thrown })
  if (thrown instanceof IcebergRejection) return toError(classifyAnswer(thrown), thrown.retryAfterMs)
  if (thrown instanceof Terminal) return toError({ class: 'config', type: 'connection_error' })
  if (thrown instanceof Error && /^(Abort|Timeout)Error$/.test(thrown.name))
    return toError({ class: 'transient', type: 'context_canceled' })
  if (thrown instanceof Retryable) return toError({ class: 'transient', type: thrown.code === 'timeout' ? 'timeout' : 'connection_error' })
  return toError({ class: 'unknown', type: 'unknown' })
}

export function classifyAnswer({ status, kind }: { readonly status: number; readonly kind: string }): Kind {
  if (status === 401 || status === 403 || status === 419) return { class: 'config', type: 'auth_error' }
  if (status === 408 || status === 409 || status === 425 || status === 429 || status >= 500)
    return { class: 'transient', type: 'transient' }
  // S3 sends these with 400.
  if (/^(RequestTimeout|SlowDown|ExpiredToken|RequestTimeTooSkewed)$/.test(kind)) return { class: 'transient', type: 'transient' }
  return { class: 'config', type: 'unknown' }
}

/** Whether the catalog may have carried out the commit that ended with this. An answer that is too large came after the request. */
export function isUnknownOutcome(thrown: unknown): boolean {
  if (thrown instanceof IcebergRejection) return thrown.server === 'catalog' && (thrown.status >= 500 || thrown.status === 408)
  return !(thrown instanceof Terminal) || thrown.code === 'answer_too_large'
}

export const configError = (message: string): ConnectorError => new ConnectorError({ class: 'config', type: 'unknown' }, message)
