// Keys of things to look at. A key waits once however often it is added, is worked on by one worker at a time, and comes back after a
// growing pause when its work fails. Nothing but the key is kept: whoever takes it looks at the state.
//
// A key is in one of: absent → waiting (ready now) or delayed (ready later) → active (taken). Added while active it is noted, and
// waits again once `done` is called.
import { type BackoffPolicy, backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'

interface Delayed {
  dueMs: number
  timer: { cancel(): void }
}

export class WorkQueue {
  readonly #clock: Clock
  readonly #backoff: BackoffPolicy
  readonly #waiting = new Set<string>()
  readonly #delayed = new Map<string, Delayed>()
  readonly #active = new Set<string>()
  readonly #again = new Set<string>()
  readonly #failures = new Map<string, number>()
  readonly #takers = new Set<(key: string | undefined) => void>()
  readonly #idlers = new Set<() => void>()
  #closed = false

  constructor(deps: { clock: Clock }, backoff: BackoffPolicy) {
    this.#clock = deps.clock
    this.#backoff = backoff
  }

  get waiting(): number {
    return this.#waiting.size
  }

  get delayed(): number {
    return this.#delayed.size
  }

  get active(): number {
    return this.#active.size
  }

  /** Ready now, also when it was to come later. */
  add(key: string): void {
    if (this.#closed) return
    this.#undelay(key)
    if (this.#active.has(key)) {
      this.#again.add(key)
      return
    }
    this.#waiting.add(key)
    this.#hand()
  }

  /** Ready after so long; the earlier of two times counts, and a key that waits already stays where it is. */
  addAfter(key: string, ms: number): void {
    if (this.#closed || this.#waiting.has(key) || this.#again.has(key)) return
    if (ms <= 0) {
      this.add(key)
      return
    }
    const dueMs = this.#clock.monotonicMs() + ms
    const known = this.#delayed.get(key)
    if (known && known.dueMs <= dueMs) return
    known?.timer.cancel()
    this.#delayed.set(key, { dueMs, timer: this.#clock.setTimer(ms, () => this.add(key)) })
  }

  /** After a failure: ready after a pause that grows with every call until `forget`. Gives the pause. */
  retry(key: string, atLeastMs = 0): number {
    const failures = this.#failures.get(key) ?? 0
    this.#failures.set(key, failures + 1)
    const pauseMs = Math.max(atLeastMs, backoffDelayMs(this.#backoff, failures))
    this.addAfter(key, pauseMs)
    return pauseMs
  }

  forget(key: string): void {
    this.#failures.delete(key)
  }

  /** The next key, which is then ours until `done`. Undefined once the queue is closed. */
  take(): Promise<string | undefined> {
    const { promise, resolve } = Promise.withResolvers<string | undefined>()
    this.#takers.add(resolve)
    this.#hand()
    return promise
  }

  done(key: string): void {
    this.#active.delete(key)
    if (this.#again.delete(key)) this.add(key)
    if (this.#active.size === 0 && this.#waiting.size === 0) for (const idle of this.#idlers) idle()
  }

  /** Resolves when nothing waits and nothing is worked on; delayed keys do not count. */
  async whenIdle(): Promise<void> {
    if (this.#active.size === 0 && this.#waiting.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#idlers.add(resolve)
    await promise.finally(() => this.#idlers.delete(resolve))
  }

  /** Nothing is handed out any more; what is active goes on. */
  close(): void {
    this.#closed = true
    for (const { timer } of this.#delayed.values()) timer.cancel()
    for (const keys of [this.#delayed, this.#waiting, this.#again, this.#failures]) keys.clear()
    for (const taker of this.#takers) taker(undefined)
    this.#takers.clear()
    if (this.#active.size === 0) for (const idle of this.#idlers) idle()
  }

  #undelay(key: string): void {
    this.#delayed.get(key)?.timer.cancel()
    this.#delayed.delete(key)
  }

  #hand(): void {
    for (const taker of this.#takers) {
      const [key] = this.#waiting
      if (key === undefined && !this.#closed) return
      this.#takers.delete(taker)
      if (key !== undefined) {
        this.#waiting.delete(key)
        this.#active.add(key)
      }
      taker(key)
    }
  }
}
