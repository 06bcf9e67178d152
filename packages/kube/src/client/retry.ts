// Retries calls to the API server: only temporary failures, for a bounded time, never earlier than the server allows.
import { addJitter } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { findFieldConflicts, isDenied } from '../apply/failure.ts'
import { hasReason, KubeError, type KubeReason } from './kube-error.ts'

export interface RetryPolicy {
  baseMs: number
  maxMs: number
  /** Limit on the sum of all waits of one call. */
  totalMs: number
  /** Number of retries after a write conflict (409). */
  conflicts: number
  /** Reasons that are returned to the caller although a later call might succeed. */
  except?: readonly KubeReason[]
}

export const API_RETRY: RetryPolicy = { baseMs: 1_000, maxMs: 60_000, totalMs: 300_000, conflicts: 5 }

/** Does not wait for a group whose discovery fails; its kinds are left out. */
export const READ_RETRY: RetryPolicy = { ...API_RETRY, except: ['DiscoveryFailed'] }

/** For callers with their own retry loop. */
export const NO_RETRY: RetryPolicy = { baseMs: 0, maxMs: 0, totalMs: 0, conflicts: 0 }

export interface RetryState {
  transient: number
  conflicts: number
  waitedMs: number
}

export async function retrying<T>(deps: { clock: Clock }, policy: RetryPolicy, call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  const tries: RetryState = { transient: 0, conflicts: 0, waitedMs: 0 }
  for (;;) {
    signal?.throwIfAborted()
    try {
      return await call()
    } catch (error) {
      const waitMs = getRetryDelayMs(error, tries, policy)
      if (waitMs === undefined) throw error
      if (isWriteConflict(error)) tries.conflicts++
      else tries.transient++
      tries.waitedMs += waitMs
      await deps.clock.sleep(waitMs, signal)
    }
  }
}

/** Returns the wait before the next attempt; undefined if a retry cannot help. */
export function getRetryDelayMs(error: unknown, tries: RetryState, policy: RetryPolicy): number | undefined {
  if (isWriteConflict(error)) return tries.conflicts < policy.conflicts ? addJitter(50 * 2 ** Math.min(tries.conflicts, 4), 0.2) : undefined
  if (!(error instanceof KubeError) || !error.retryable || policy.except?.includes(error.reason)) return undefined
  const stepMs = addJitter(Math.min(policy.maxMs, policy.baseMs * 2 ** Math.min(tries.transient, 30)), 0.2)
  const waitMs = error.retryAfterMs === undefined ? stepMs : Math.min(error.retryAfterMs, policy.maxMs)
  return tries.waitedMs + waitMs <= policy.totalMs && policy.totalMs > 0 ? waitMs : undefined
}

/** Another client wrote at the same time. A field conflict of server-side apply, or a refusal with status 409, is not retried. */
const isWriteConflict = (error: unknown): boolean =>
  hasReason(error, 'AlreadyExists', 'Conflict') && findFieldConflicts(error).length === 0 && !isDenied(error)
