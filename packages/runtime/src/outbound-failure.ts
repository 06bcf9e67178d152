// Sorts what can go wrong on the way out into "again later" and "never this way". Messages name the origin alone: paths and
// queries of webhooks are secrets.
import { Failure, Retryable, Terminal, toError } from './errors.ts'
import { errors } from './http-pool.ts'

export type Cancelled = { timeout: AbortSignal; timeoutMs: number; caller?: AbortSignal }

/** The caller's own abort comes back as the caller's reason, unchanged. */
export function failureOf(thrown: unknown, where: string, cancelled: Cancelled): unknown {
  if (cancelled.caller?.aborted) return cancelled.caller.reason
  if (cancelled.timeout.aborted) return new Retryable(`${where}: no complete answer within ${cancelled.timeoutMs} ms`, { code: 'timeout' })
  if (thrown instanceof Failure) return thrown
  const cause = toError(thrown)
  if (cause instanceof errors.HeadersTimeoutError || cause instanceof errors.BodyTimeoutError)
    return new Retryable(`${where}: the other side went silent`, { code: 'timeout', cause })
  if (cause instanceof errors.InvalidArgumentError)
    return new Terminal(`${where}: the request cannot be sent`, { code: 'request_invalid', cause })
  if (cause instanceof errors.MaxOriginsReachedError)
    return new Retryable(`${where}: connections to too many hosts are open`, { code: 'overloaded', cause })
  return new Retryable(`${where}: the connection failed`, { code: 'unreachable', cause })
}
