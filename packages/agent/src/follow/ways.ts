// By which way the broker is followed: stream, long poll where streams are held back, polling where there is neither. A better
// way is tried again now and then, and one that works is kept. Pure but for the clock.
import type { Clock } from '@brokkr/runtime/clock.ts'

export type Way = 'stream' | 'longpoll' | 'poll'
export type Transport = 'auto' | Way

const worth: Record<Way, number> = { stream: 2, longpoll: 1, poll: 0 }

export class Ways {
  readonly #clock: Clock
  readonly #retryMs: () => number
  readonly #best: Way
  readonly #mayChange: boolean
  #usual: Way
  /** By the monotonic clock; from then on the best way is tried again. */
  #betterFromMs = Number.POSITIVE_INFINITY

  constructor(clock: Clock, transport: Transport, retryMs: () => number) {
    this.#clock = clock
    this.#retryMs = retryMs
    this.#best = transport === 'auto' ? 'stream' : transport
    this.#mayChange = transport === 'auto'
    this.#usual = this.#best
  }

  /** For the next turn. */
  get next(): Way {
    return this.#isTrialDue ? this.#best : this.#usual
  }

  get usual(): Way {
    return this.#usual
  }

  get untilTrialMs(): number {
    return this.#usual === this.#best ? Number.POSITIVE_INFINITY : Math.max(0, this.#betterFromMs - this.#clock.monotonicMs())
  }

  /** A frame or a list came this way. */
  worked(way: Way): void {
    if (worth[way] >= worth[this.#usual]) this.#settle(way)
  }

  /** The way does not work here. True: another one is used from now on. */
  failed(way: Way, other: Way): boolean {
    if (!this.#mayChange) return false
    // A trial that failed leaves everything as it was.
    const isTrial = way !== this.#usual
    if (isTrial) this.#betterFromMs = this.#clock.monotonicMs() + this.#retryMs()
    else this.#settle(other)
    return !isTrial
  }

  get #isTrialDue(): boolean {
    return this.#usual !== this.#best && this.#clock.monotonicMs() >= this.#betterFromMs
  }

  #settle(way: Way): void {
    if (way === this.#usual) return
    this.#usual = way
    this.#betterFromMs = this.#clock.monotonicMs() + this.#retryMs()
  }
}
