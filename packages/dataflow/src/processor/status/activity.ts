// Time of the last attempt of any stage: read, transform, write, commit or retry.
import type { Clock } from '@brokkr/runtime/clock.ts'

export class Activity {
  readonly #clock: Clock
  #lastMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#lastMs = clock.monotonicMs()
  }

  record(): void {
    this.#lastMs = this.#clock.monotonicMs()
  }

  get idleMs(): number {
    return this.#clock.monotonicMs() - this.#lastMs
  }
}
