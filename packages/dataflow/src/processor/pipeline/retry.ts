// How long to wait before the same thing is tried again: 0.5 s doubling to 30 s at a sink, 1 s to 60 s for connecting, moved by up to
// a fifth; never sooner than a server asked for.
import { addJitter, backoffDelayMs } from '@brokkr/runtime/backoff.ts'

export interface RetryPolicy {
  readonly baseMs: number
  readonly maxMs: number
}
export const sinkRetry: RetryPolicy = { baseMs: 500, maxMs: 30_000 }
export const connectRetry: RetryPolicy = { baseMs: 1_000, maxMs: 60_000 }
/** Longest wait that a server may ask for. */
const maxRetryAfterMs = 600_000

export function retryDelayMs(policy: RetryPolicy, failures: number, askedMs = 0): number {
  return Math.max(addJitter(backoffDelayMs(policy, failures), 0.2), Math.min(askedMs, maxRetryAfterMs))
}
