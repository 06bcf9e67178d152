// Repeating a call to the API server: only what may pass by itself, for a bounded time, never faster than the server asks.
import { jittered } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { hasReason, KubeError } from './api-error.ts'
import { fieldConflictsOf } from './failure.ts'

export interface RetryPolicy {
  baseMs: number
  maxMs: number
  /** All waits of one call together. */
  totalMs: number
  /** How often a lost race (409) is run again. */
  conflicts: number
}

export const API_RETRY: RetryPolicy = { baseMs: 1_000, maxMs: 60_000, totalMs: 300_000, conflicts: 5 }

/** For callers with a loop of their own around the call. */
export const NO_RETRY: RetryPolicy = { baseMs: 0, maxMs: 0, totalMs: 0, conflicts: 0 }

export interface Tries {
  transient: number
  conflicts: number
  waitedMs: number
}

export async function retrying<T>(deps: { clock: Clock }, policy: RetryPolicy, call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  const tries: Tries = { transient: 0, conflicts: 0, waitedMs: 0 }
  for (;;) {
    signal?.throwIfAborted()
    try {
      return await call()
    } catch (error) {
      const waitMs = nextTryMs(error, tries, policy)
      if (waitMs === undefined) throw error
      if (isRace(error)) tries.conflicts++
      else tries.transient++
      tries.waitedMs += waitMs
      await deps.clock.sleep(waitMs, signal)
    }
  }
}

/** How long to wait before the same call again; undefined when it is not worth it. */
export function nextTryMs(error: unknown, tries: Tries, policy: RetryPolicy): number | undefined {
  if (isRace(error)) return tries.conflicts < policy.conflicts ? jittered(50 * 2 ** Math.min(tries.conflicts, 4), 0.2) : undefined
  if (!(error instanceof KubeError) || !error.retryable) return undefined
  const stepMs = jittered(Math.min(policy.maxMs, policy.baseMs * 2 ** Math.min(tries.transient, 30)), 0.2)
  const waitMs = error.retryAfterMs === undefined ? stepMs : Math.min(error.retryAfterMs, policy.maxMs)
  return tries.waitedMs + waitMs <= policy.totalMs && policy.totalMs > 0 ? waitMs : undefined
}

/** Somebody else wrote at the same moment. A conflict over fields is no race: it stays until a person decides. */
const isRace = (error: unknown): boolean => hasReason(error, 'AlreadyExists', 'Conflict') && fieldConflictsOf(error).length === 0
