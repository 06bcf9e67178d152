// Saves the checkpoint once per interval, soon after a request, and at the end. One save runs at a time; the next save includes what a
// failed one did not store.
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { Counters } from '@brokkr/contract/dataflow/progress.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { ConnectorError } from '../../connectors/connector.ts'
import { createMutex, Waiter } from '../pipeline/waiter.ts'
import { Fenced, type FlowCheckpoint } from './checkpoint.ts'

export interface CheckpointSaverDeps {
  readonly clock: Clock
  readonly checkpoint: FlowCheckpoint | undefined
  readonly intervalMs: number
  readonly limitMs: number
  getState(): JsonObject | undefined
  getCounters(): Counters
  onSaved(): void
  onFailure(error: unknown): void
}

/** Delay of a requested save, so that several requests become one save. */
const soonestMs = 1_000

const toStateError = (error: unknown): ConnectorError =>
  error instanceof Fenced
    ? new ConnectorError({ class: 'fenced', type: 'unknown' }, error.message, { cause: error })
    : new ConnectorError({ class: 'transient', type: 'transient' }, `cannot save the checkpoint: ${errorText(error)}`, { cause: error })

export class CheckpointSaver {
  readonly #deps: CheckpointSaverDeps
  readonly #waiter = new Waiter()
  readonly #exclusively = createMutex()
  #isRequested = false
  /** Ids of one-shots that were applied. */
  appliedOneShots: { readonly resetId?: string; readonly rewindId?: string } = {}

  constructor(deps: CheckpointSaverDeps) {
    this.#deps = deps
  }

  async run(signal: AbortSignal): Promise<void> {
    if (this.#deps.checkpoint === undefined) return
    while (!signal.aborted) {
      const lastMs = this.#deps.clock.monotonicMs()
      if (!this.#isRequested) await this.#waiter.wait({ clock: this.#deps.clock, ms: this.#deps.intervalMs, signal })
      const restMs = Math.min(soonestMs, this.#deps.intervalMs) - (this.#deps.clock.monotonicMs() - lastMs)
      if (restMs > 0) await this.#deps.clock.sleep(restMs, signal).catch(() => {})
      if (!signal.aborted) await this.save()
    }
  }

  requestSave(): void {
    this.#isRequested = true
    this.#waiter.wake()
  }

  /** Unlike `save`, rejects if the state was not stored: the sink must not write then. */
  saveSinkState(key: string, state: JsonObject): Promise<void> {
    const { checkpoint, limitMs } = this.#deps
    if (checkpoint === undefined) return Promise.reject(new Error('the flow has no checkpoint'))
    return this.#exclusively(async () => {
      try {
        await checkpoint.saveSinkState(key, state, AbortSignal.timeout(limitMs))
      } catch (error) {
        this.#deps.onFailure(error)
        throw toStateError(error)
      }
    })
  }

  /** Resolves also if the save failed; `onFailure` reports it. */
  save(): Promise<void> {
    const { checkpoint } = this.#deps
    if (checkpoint === undefined) return Promise.resolve()
    return this.#exclusively(async () => {
      this.#isRequested = false
      const saved = { state: this.#deps.getState(), ...this.appliedOneShots }
      try {
        await checkpoint.save(saved, this.#deps.getCounters(), AbortSignal.timeout(this.#deps.limitMs))
        this.#deps.onSaved()
      } catch (error) {
        this.#deps.onFailure(error)
      }
    })
  }
}
