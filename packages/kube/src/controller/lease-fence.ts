// How long a holder may trust its Lease: a fixed time from before its last renewal was sent. The only module that reads clocks for this.
import type { Clock } from '@brokkr/runtime/clock.ts'

/** Created before a request is sent. */
export interface Sent {
  untilMs: number
  untilWallMs: number
}

export class Fence {
  readonly #clock: Clock
  readonly #fenceMs: number
  readonly #onOver: () => void
  #belief: Sent | undefined
  #timer: { cancel(): void } | undefined

  constructor(clock: Clock, fenceMs: number, onOver: () => void) {
    this.#clock = clock
    this.#fenceMs = fenceMs
    this.#onOver = onOver
  }

  /** True after a renewal succeeded, even if its time is over. */
  get isUp(): boolean {
    return this.#belief !== undefined
  }

  holds(): boolean {
    // The wall clock is checked too, because the monotonic clock stops while a machine is suspended.
    return this.#belief !== undefined && this.#clock.monotonicMs() < this.#belief.untilMs && this.#clock.now() < this.#belief.untilWallMs
  }

  sending(): Sent {
    return { untilMs: this.#clock.monotonicMs() + this.#fenceMs, untilWallMs: this.#clock.now() + this.#fenceMs }
  }

  believe(sent: Sent): void {
    this.#timer?.cancel()
    this.#belief = sent
    this.#timer = this.#clock.setTimer(Math.max(0, sent.untilMs - this.#clock.monotonicMs()), () => this.#onOver())
  }

  drop(): void {
    this.#timer?.cancel()
    this.#belief = undefined
  }
}
