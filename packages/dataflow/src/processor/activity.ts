// Whether anything is tried at all: every stage says so when it reads, transforms, writes, commits or waits to try again.
import type { Clock } from '@brokkr/runtime/clock.ts'

export class Activity {
  readonly #clock: Clock
  #lastMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#lastMs = clock.monotonicMs()
  }

  touch(): void {
    this.#lastMs = this.#clock.monotonicMs()
  }

  get idleMs(): number {
    return this.#clock.monotonicMs() - this.#lastMs
  }
}
