// A queue of deduplicated keys. A key waits once however often it is added, is processed by one worker at a time, and returns with backoff after
// a failure. Only the key is kept: the worker reads the current state.
//
// States of a key: absent → waiting (ready now) or delayed (ready later) → active (taken). A key that is added while active waits again once
// `done` is called.
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
  readonly #drainers = new Set<() => void>()
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

  /** Makes a key ready now, even if it was delayed. */
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

  /** Makes a key ready after a delay. The earlier of two times counts; a waiting key keeps its place. */
  addAfter(key: string, ms: number): void {
    if (this.#closed || this.#waiting.has(key) || this.#again.has(key)) return
    if (ms <= 0) {
      this.add(key)
      return
    }
    const dueMs = this.#clock.monotonicMs() + ms
    const delayed = this.#delayed.get(key)
    if (delayed && delayed.dueMs <= dueMs) return
    delayed?.timer.cancel()
    this.#delayed.set(key, { dueMs, timer: this.#clock.setTimer(ms, () => this.add(key)) })
  }

  /** Retries a key after a failure, with a delay that grows until `forget`. Returns the delay. */
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

  /** Returns the next key, which is active until `done`; undefined after the queue is closed. */
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

  /** Resolves when no key is waiting or active; delayed keys do not count. */
  async whenIdle(): Promise<void> {
    if (this.#active.size === 0 && this.#waiting.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#idlers.add(resolve)
    await promise.finally(() => this.#idlers.delete(resolve))
  }

  /** Resolves when no key is waiting: every key that was added has been taken. */
  async whenDrained(): Promise<void> {
    if (this.#waiting.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#drainers.add(resolve)
    await promise.finally(() => this.#drainers.delete(resolve))
  }

  /** Returns no further keys; active keys continue. */
  close(): void {
    this.#closed = true
    for (const { timer } of this.#delayed.values()) timer.cancel()
    for (const keys of [this.#delayed, this.#waiting, this.#again, this.#failures]) keys.clear()
    for (const taker of this.#takers) taker(undefined)
    this.#takers.clear()
    for (const drained of this.#drainers) drained()
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
        if (this.#waiting.size === 0) for (const drained of this.#drainers) drained()
      }
      taker(key)
    }
  }
}
