// Writes the checkpoint: at most once per interval, soon when asked, and at the end. One save at a time; a failure is told and the next
// save carries everything anyway.
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { Counters } from '@brokkr/contract/dataflow/progress.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { FlowCheckpoint } from './checkpoint.ts'
import { createExclusive } from './exclusive.ts'
import { Waiter } from './waiter.ts'

export interface SaverDeps {
  readonly clock: Clock
  readonly checkpoint: FlowCheckpoint | undefined
  readonly intervalMs: number
  readonly limitMs: number
  state(): JsonObject | undefined
  counters(): Counters
  saved(): void
  failed(error: unknown): void
}

/** Also what is asked for at once waits this long, so that many requests become one. */
const soonestMs = 1_000

export class Saver {
  readonly #deps: SaverDeps
  readonly #waiter = new Waiter()
  readonly #exclusively = createExclusive()
  #isWanted = false
  /** Ids of orders that were carried out. */
  orders: { readonly resetId?: string; readonly rewindId?: string } = {}

  constructor(deps: SaverDeps) {
    this.#deps = deps
  }

  async run(signal: AbortSignal): Promise<void> {
    if (this.#deps.checkpoint === undefined) return
    while (!signal.aborted) {
      const lastMs = this.#deps.clock.monotonicMs()
      if (!this.#isWanted) await this.#waiter.wait({ clock: this.#deps.clock, ms: this.#deps.intervalMs, signal })
      const restMs = Math.min(soonestMs, this.#deps.intervalMs) - (this.#deps.clock.monotonicMs() - lastMs)
      if (restMs > 0) await this.#deps.clock.sleep(restMs, signal).catch(() => {})
      if (!signal.aborted) await this.save()
    }
  }

  soon(): void {
    this.#isWanted = true
    this.#waiter.wake()
  }

  /** Resolves whether it worked or not. */
  save(): Promise<void> {
    const { checkpoint } = this.#deps
    if (checkpoint === undefined) return Promise.resolve()
    return this.#exclusively(async () => {
      this.#isWanted = false
      const saved = { state: this.#deps.state(), ...this.orders }
      try {
        await checkpoint.save(saved, this.#deps.counters(), AbortSignal.timeout(this.#deps.limitMs))
        this.#deps.saved()
      } catch (error) {
        this.#deps.failed(error)
      }
    })
  }
}
