// After a stream has ended: how long to wait, with or without the cursor, and by which way. Pure; the caller waits.

export type StreamEnd =
  | { readonly how: 'bye'; readonly retryAfterMs: number }
  /** A long poll came to its proper end. */
  | { readonly how: 'polled' }
  /** Cut, reset, unreachable, or ended without a word. */
  | { readonly how: 'lost' }
  | { readonly how: 'silent' }
  /** It was accepted, and not even its first frame came: something on the way holds it back. */
  | { readonly how: 'mute' }
  /** A frame that does not parse or contradicts itself. */
  | { readonly how: 'broken' }
  /** A list whose count or digest was not ours. */
  | { readonly how: 'unverified' }
  /** We ended it ourselves, to ask for a complete list. */
  | { readonly how: 'asked' }
  | { readonly how: 'refused'; readonly status: number; readonly code: string; readonly retryAfterMs: number | undefined }

export interface Standing {
  /** Streams in a row that did not hold. */
  readonly failures: number
  /** Broken streams in a row without a newer cursor. */
  readonly broken: number
  /** Streams in a row that showed no frame. */
  readonly mute: number
}
export const freshStanding: Standing = { failures: 0, broken: 0, mute: 0 }

export interface Ended {
  readonly end: StreamEnd
  readonly lastedMs: number
  readonly hadCursor: boolean
  /** A newer cursor was kept while it lasted. */
  readonly hasMoved: boolean
}
export interface NextTry {
  readonly standing: Standing
  /** Wait at least this, and at least the back-off of that many failures; null: no back-off. */
  readonly atLeastMs: number
  readonly backoffAttempt: number | null
  readonly cursor: 'keep' | 'drop'
  /** stream: as before. */
  readonly transport: 'stream' | 'longpoll' | 'poll'
}

const healthyMs = 60_000
const byeWaitMaxMs = 300_000
const refusedWaitMaxMs = 60_000
const brokenMax = 3
const muteMax = 2
/** A stream that ended sooner did not do its work, whatever it said at the end. */
const briefMs = 1_000
const notServed: ReadonlySet<number> = new Set([404, 405, 501])

export function nextTry(standing: Standing, { end, lastedMs, hadCursor, hasMoved }: Ended): NextTry {
  const failures = lastedMs >= healthyMs && end.how !== 'mute' ? 0 : standing.failures
  const broken = hasMoved ? 0 : standing.broken
  // A refused connection or an error answer says nothing about what holds streams back.
  const mute = end.how === 'lost' || end.how === 'refused' ? standing.mute : 0
  const failed = { failures: failures + 1, broken, mute }
  const again = (change: Partial<NextTry> = {}): NextTry => ({
    standing: failed,
    atLeastMs: 0,
    backoffAttempt: failures,
    cursor: 'keep',
    transport: 'stream',
    ...change,
  })
  switch (end.how) {
    case 'bye': {
      const atLeastMs = Math.min(end.retryAfterMs, byeWaitMaxMs)
      return lastedMs < briefMs ? again({ atLeastMs }) : again({ standing: { ...failed, failures: 0 }, atLeastMs, backoffAttempt: null })
    }
    case 'polled':
      return again({ standing: freshStanding, backoffAttempt: null })
    case 'lost':
    case 'silent':
      return again()
    case 'mute': {
      const isHeldBack = standing.mute + 1 >= muteMax
      return again({
        standing: { ...failed, mute: standing.mute + 1 },
        backoffAttempt: 0,
        ...(isHeldBack ? { transport: 'longpoll' } : {}),
      })
    }
    case 'broken':
      if (broken + 1 < brokenMax) return again({ standing: { ...failed, broken: broken + 1 } })
      return again({ standing: { ...failed, broken: 0 }, cursor: 'drop' })
    case 'unverified':
      return again({ cursor: 'drop' })
    case 'asked':
      return again({ standing: { ...failed, failures: 0 }, backoffAttempt: null, cursor: 'drop' })
    case 'refused':
      if (notServed.has(end.status)) return again({ transport: 'poll' })
      if (end.code === 'bad_cursor') return again({ cursor: 'drop', ...(hadCursor ? { backoffAttempt: null } : {}) })
      return again({ atLeastMs: Math.min(end.retryAfterMs ?? 0, refusedWaitMaxMs) })
    default:
      return end satisfies never
  }
}
