// What holds the flow up: a guilty message without a way out, a sink that refuses us, too many letters in a row. The oldest one is
// what people are shown as `blocked`.
import type { Blocked } from '@brokkr/contract/dataflow/progress.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface HoldReason {
  readonly stage: Blocked['stage']
  readonly connector: string
  readonly errorType: string
  readonly message: string
  /** As people read and write it; blank where no message is at fault. */
  readonly position: string
}

export interface Hold {
  update(reason: HoldReason): void
  end(): void
}

export class Holds {
  readonly #clock: Clock
  readonly #all = new Set<{ sinceMs: number; reason: HoldReason }>()
  readonly #changed: (blocked: Blocked | undefined) => void

  constructor(clock: Clock, changed: (blocked: Blocked | undefined) => void = () => {}) {
    this.#clock = clock
    this.#changed = changed
  }

  begin(reason: HoldReason): Hold {
    const hold = { sinceMs: this.#clock.now(), reason }
    this.#all.add(hold)
    this.#changed(this.blocked)
    return {
      update: (next) => void (hold.reason = next),
      end: () => {
        if (this.#all.delete(hold)) this.#changed(this.blocked)
      },
    }
  }

  get blocked(): Blocked | undefined {
    const [first] = this.#all
    return first === undefined ? undefined : { since: new Date(first.sinceMs).toISOString(), ...first.reason }
  }
}
