// Time as a dependency, so that a test can move it. Programs get `systemClock` from their main.

export interface Clock {
  /** Milliseconds since 1970; can jump when the system clock is set. For timestamps. */
  now(): number
  /** Monotonic milliseconds. For measuring durations. */
  monotonicMs(): number
  /** Rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  setTimer(ms: number, fire: () => void): { cancel(): void }
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep,
  setTimer,
}

/** Node fires timers beyond 2^31 - 1 ms immediately, so long waits are split. */
const pieceMs = 2 ** 31 - 1

function setTimer(ms: number, fire: () => void): { cancel(): void } {
  const dueMs = performance.now() + ms
  let handle = setTimeout(step, Math.min(Math.max(0, ms), pieceMs))
  function step(): void {
    const leftMs = dueMs - performance.now()
    // Timers may fire a fraction of a millisecond early; only a whole piece is worth another round.
    if (leftMs < 1) return fire()
    handle = setTimeout(step, Math.min(leftMs, pieceMs))
  }
  return { cancel: () => clearTimeout(handle) }
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  if (signal?.aborted) return Promise.reject(toAbortError(signal))
  const abort = () => {
    timer.cancel()
    if (signal) reject(toAbortError(signal))
  }
  const timer = setTimer(ms, () => {
    signal?.removeEventListener('abort', abort)
    resolve()
  })
  signal?.addEventListener('abort', abort, { once: true })
  return promise
}

function toAbortError(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error(`stopped: ${String(signal.reason)}`)
}
