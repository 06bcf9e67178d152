// The counters of a flow since this process began. What is counted as processed lies in the committed prefix.
import type { Counters } from '@brokkr/contract/dataflow/progress.ts'
import type { EndingCounts } from './open-messages.ts'

export class FlowCounts {
  readonly #since: string
  read = 0
  /** Records that main and route sinks acknowledged. */
  written = 0
  #committed: EndingCounts = { written: 0, dropped: 0, 'dead-lettered': 0 }
  #lastMs: number | undefined

  constructor(nowMs: number) {
    this.#since = new Date(nowMs).toISOString()
  }

  committed(counts: EndingCounts, nowMs: number): void {
    this.#committed = counts
    this.#lastMs = nowMs
  }

  get counters(): Counters {
    const { written, dropped, 'dead-lettered': lettered } = this.#committed
    return {
      readCount: this.read,
      processedCount: written + dropped + lettered,
      writtenCount: this.written,
      droppedCount: dropped,
      errorCount: lettered,
      countersSince: this.#since,
      ...(this.#lastMs === undefined ? {} : { lastProcessedTime: new Date(this.#lastMs).toISOString() }),
    }
  }
}
