// Plans the next connection after a stream ended: pause, cursor and transport. Pure.

export type StreamEnd =
  | { readonly how: 'bye'; readonly retryAfterMs: number }
  /** A long poll ended normally. */
  | { readonly how: 'polled' }
  /** Cut, reset, unreachable, or ended without a bye frame. */
  | { readonly how: 'lost' }
  | { readonly how: 'silent' }
  /** Accepted without a first frame: an intermediary buffers the stream. */
  | { readonly how: 'mute' }
  /** A frame did not parse or was inconsistent. */
  | { readonly how: 'broken' }
  /** Count or digest of a snapshot did not match. */
  | { readonly how: 'unverified' }
  /** Ended by this agent to request a snapshot. */
  | { readonly how: 'asked' }
  | { readonly how: 'refused'; readonly status: number; readonly code: string; readonly retryAfterMs: number | undefined }

export interface StreamFailures {
  /** Consecutive failed streams. */
  readonly failures: number
  /** Consecutive broken streams without a newer cursor. */
  readonly broken: number
  /** Consecutive streams without a first frame. */
  readonly mute: number
}
export const noFailures: StreamFailures = { failures: 0, broken: 0, mute: 0 }

export interface StreamResult {
  readonly end: StreamEnd
  readonly lastedMs: number
  readonly hadCursor: boolean
  /** A newer cursor was stored during the stream. */
  readonly hasMoved: boolean
}
export interface ReconnectPlan {
  readonly failures: StreamFailures
  /** Minimum pause, combined with the backoff of that many failures; null: no backoff. */
  readonly atLeastMs: number
  readonly backoffAttempt: number | null
  readonly cursor: 'keep' | 'drop'
  /** stream: no change. */
  readonly transport: 'stream' | 'longpoll' | 'poll'
}

const healthyMs = 60_000
const byeWaitMaxMs = 300_000
const refusedWaitMaxMs = 60_000
const brokenMax = 3
const muteMax = 2
/** A stream that ends sooner counts as failed. */
const briefMs = 1_000
const notServed: ReadonlySet<number> = new Set([404, 405, 501])

export function planReconnect(previous: StreamFailures, { end, lastedMs, hadCursor, hasMoved }: StreamResult): ReconnectPlan {
  const failures = lastedMs >= healthyMs && end.how !== 'mute' ? 0 : previous.failures
  const broken = hasMoved ? 0 : previous.broken
  // A refused connection or an error response is no sign of buffering.
  const mute = end.how === 'lost' || end.how === 'refused' ? previous.mute : 0
  const next = { failures: failures + 1, broken, mute }
  const plan = (change: Partial<ReconnectPlan> = {}): ReconnectPlan => ({
    failures: next,
    atLeastMs: 0,
    backoffAttempt: failures,
    cursor: 'keep',
    transport: 'stream',
    ...change,
  })
  switch (end.how) {
    case 'bye': {
      const atLeastMs = Math.min(end.retryAfterMs, byeWaitMaxMs)
      return lastedMs < briefMs ? plan({ atLeastMs }) : plan({ failures: { ...next, failures: 0 }, atLeastMs, backoffAttempt: null })
    }
    case 'polled':
      return plan({ failures: noFailures, backoffAttempt: null })
    case 'lost':
    case 'silent':
      return plan()
    case 'mute': {
      const isHeldBack = previous.mute + 1 >= muteMax
      return plan({
        failures: { ...next, mute: previous.mute + 1 },
        backoffAttempt: 0,
        ...(isHeldBack ? { transport: 'longpoll' } : {}),
      })
    }
    case 'broken':
      if (broken + 1 < brokenMax) return plan({ failures: { ...next, broken: broken + 1 } })
      return plan({ failures: { ...next, broken: 0 }, cursor: 'drop' })
    case 'unverified':
      return plan({ cursor: 'drop' })
    case 'asked':
      return plan({ failures: { ...next, failures: 0 }, backoffAttempt: null, cursor: 'drop' })
    case 'refused':
      if (notServed.has(end.status)) return plan({ transport: 'poll' })
      if (end.code === 'bad_cursor') return plan({ cursor: 'drop', ...(hadCursor ? { backoffAttempt: null } : {}) })
      return plan({ atLeastMs: Math.min(end.retryAfterMs ?? 0, refusedWaitMaxMs) })
    default:
      return end satisfies never
  }
}
