// A place to wait for news: woken by hand, by time, or by a signal. It never says which, so whoever waits looks again.
import type { Clock } from '@brokkr/runtime/clock.ts'

export class Waiter {
  #waiting: (() => void)[] = []

  get isWaitedFor(): boolean {
    return this.#waiting.length > 0
  }

  wake(): void {
    if (this.#waiting.length === 0) return
    for (const resume of this.#waiting.splice(0)) resume()
  }

  async wait(until: { clock?: Clock; ms?: number; signal?: AbortSignal | undefined } = {}): Promise<void> {
    const { clock, ms, signal } = until
    if (signal?.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const resume = () => resolve()
    this.#waiting.push(resume)
    signal?.addEventListener('abort', resume, { once: true })
    const timer = clock !== undefined && ms !== undefined && Number.isFinite(ms) ? clock.setTimer(ms, resume) : undefined
    await promise
    timer?.cancel()
    signal?.removeEventListener('abort', resume)
    const at = this.#waiting.indexOf(resume)
    if (at >= 0) this.#waiting.splice(at, 1)
  }
}
