// Counters of a flow since the process started. Processed messages are those in the committed prefix.
import type { Counters } from '@brokkr/contract/dataflow/progress.ts'
import type { OutcomeCounts } from '../pipeline/in-flight-messages.ts'

export class FlowCounts {
  readonly #since: string
  read = 0
  /** Records that main and route sinks acknowledged. */
  written = 0
  #committed: OutcomeCounts = { written: 0, dropped: 0, 'dead-lettered': 0 }
  #lastMs: number | undefined

  constructor(nowMs: number) {
    this.#since = new Date(nowMs).toISOString()
  }

  recordCommit(counts: OutcomeCounts, nowMs: number): void {
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
