// Waits for a wake-up, a timeout or an abort signal. It does not report which one came, so callers check their condition again.
import type { Clock } from '@brokkr/runtime/clock.ts'

export class Waiter {
  #waiters: (() => void)[] = []

  get hasWaiters(): boolean {
    return this.#waiters.length > 0
  }

  wake(): void {
    if (this.#waiters.length === 0) return
    for (const resume of this.#waiters.splice(0)) resume()
  }

  async wait(until: { clock?: Clock; ms?: number; signal?: AbortSignal | undefined } = {}): Promise<void> {
    const { clock, ms, signal } = until
    if (signal?.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const resume = () => resolve()
    this.#waiters.push(resume)
    signal?.addEventListener('abort', resume, { once: true })
    const timer = clock !== undefined && ms !== undefined && Number.isFinite(ms) ? clock.setTimer(ms, resume) : undefined
    await promise
    timer?.cancel()
    signal?.removeEventListener('abort', resume)
    const at = this.#waiters.indexOf(resume)
    if (at >= 0) this.#waiters.splice(at, 1)
  }
}

/** Runs one function at a time, in call order. */
export function createMutex(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const current = last.then(work, work)
    last = current.catch(() => {})
    return current
  }
}
