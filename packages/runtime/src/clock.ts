// Time as a dependency, so that a test can move it. Programs get `systemClock` from their main.

export interface Clock {
  /** Milliseconds since 1970; may jump when the machine's clock is set. For what people read. */
  now(): number
  /** Milliseconds since some moment; never goes back. For what is measured. */
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

/** Node fires at once what lies further ahead than 2^31 - 1 ms, so long waits are made of pieces. */
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
  if (signal?.aborted) return Promise.reject(reasonOf(signal))
  const abort = () => {
    timer.cancel()
    if (signal) reject(reasonOf(signal))
  }
  const timer = setTimer(ms, () => {
    signal?.removeEventListener('abort', abort)
    resolve()
  })
  signal?.addEventListener('abort', abort, { once: true })
  return promise
}

function reasonOf(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error(`stopped: ${String(signal.reason)}`)
}
