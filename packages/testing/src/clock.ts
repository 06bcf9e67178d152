// Manual clock for time that the process under test measures itself (backoff, windows, token buckets). Databases and API servers
// use real time.
import type { Clock } from '@brokkr/runtime/clock.ts'

export type ManualClock = Clock & {
  /** Moves time on, firing every timer that falls due, in order of time; what a timer sets up inside the window fires too. */
  advance(ms: number): Promise<void>
  /** Timers and sleepers that wait: lets a test see that the code under test has reached its sleep. */
  readonly waiting: number
}
type Timer = { dueMs: number; order: number; fire: () => void }

export function manualClock(startMs = Date.UTC(2026, 0, 1)): ManualClock {
  const timers = new Set<Timer>()
  let elapsedMs = 0
  let order = 0
  const setTimer = (ms: number, fire: () => void) => {
    const timer = { dueMs: elapsedMs + Math.max(0, ms), order: order++, fire }
    timers.add(timer)
    return { cancel: () => void timers.delete(timer) }
  }
  return {
    now: () => startMs + elapsedMs,
    monotonicMs: () => elapsedMs,
    setTimer,
    sleep: (ms, signal) => sleepOn(setTimer, ms, signal),
    get waiting() {
      return timers.size
    },
    async advance(ms) {
      const untilMs = elapsedMs + checked(ms)
      await settle()
      for (let timer = nextDue(timers, untilMs); timer; timer = nextDue(timers, untilMs)) {
        timers.delete(timer)
        elapsedMs = Math.max(elapsedMs, timer.dueMs)
        timer.fire()
        await settle()
      }
      elapsedMs = untilMs
    },
  }
}

function sleepOn(setTimer: Clock['setTimer'], ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  if (signal?.aborted) return Promise.reject(toAbortError(signal))
  const timer = setTimer(ms, () => {
    signal?.removeEventListener('abort', abort)
    resolve()
  })
  const abort = () => {
    timer.cancel()
    if (signal) reject(toAbortError(signal))
  }
  signal?.addEventListener('abort', abort, { once: true })
  return promise
}

function toAbortError(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason))
}

function checked(ms: number): number {
  if (Number.isFinite(ms) && ms >= 0) return ms
  throw new RangeError(`A clock goes forward by a number of milliseconds, not by ${ms}.`)
}

function nextDue(timers: Set<Timer>, untilMs: number): Timer | undefined {
  const due = [...timers].filter((timer) => timer.dueMs <= untilMs)
  return due.toSorted((a, b) => a.dueMs - b.dueMs || a.order - b.order)[0]
}

/** Lets everything run that a fired timer has set going, as far as it needs no input or output. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
