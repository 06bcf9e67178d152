// Classifies failures of outbound requests as retryable or terminal. Messages contain only the origin: paths and queries of
// webhooks are secrets.

import { errors } from 'undici'
import { Failure, Retryable, Terminal, toError } from '../errors.ts'

export type Cancelled = { timeout: AbortSignal; timeoutMs: number; caller?: AbortSignal }

/** An abort by the caller is rethrown with the caller's reason. */
export function toFailure(thrown: unknown, where: string, cancelled: Cancelled): unknown {
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
