// Queue of a sink worker, cut into batches by number of records, bytes and age. The caller passes the time.
import type { QueueEntry } from '../pipeline/in-flight-message.ts'

export interface BatchLimits {
  /** 0: limited by bytes and timer, and by `defaultMaxRecords`. */
  readonly records: number
  readonly bytes: number
  /** Longest time that a record waits; 0: no timer. */
  readonly intervalMs: number
  /** Queued records are due at once, so the batch size grows with the latency of the sink. */
  readonly isEager: boolean
  /** Cut only between messages, because the sink stores a position with the batch. */
  readonly keepsMessagesWhole: boolean
}

/** Limit for a sink without a batch size. */
const defaultMaxRecords = 10_000

export const maxRecords = ({ records }: Pick<BatchLimits, 'records'>): number => (records === 0 ? defaultMaxRecords : records)

export class Batcher {
  limits: BatchLimits
  #entries: QueueEntry[] = []
  #bytes = 0
  #firstAtMs = 0

  constructor(bounds: BatchLimits) {
    this.limits = bounds
  }

  get size(): number {
    return this.#entries.length
  }

  get bytes(): number {
    return this.#bytes
  }

  push(entry: QueueEntry, nowMs: number): void {
    if (this.size === 0) this.#firstAtMs = nowMs
    this.#entries.push(entry)
    this.#bytes += entry.bytes
  }

  /** 0: a batch is due now. Infinity: not before more records arrive. `isUrgent`: any queued record is due. */
  getDelayMs(nowMs: number, isUrgent = false): number {
    if (this.size === 0) return Number.POSITIVE_INFINITY
    if (isUrgent || this.limits.isEager || this.size >= this.#maxRecords || this.#bytes >= this.limits.bytes) return 0
    if (this.limits.intervalMs === 0) return Number.POSITIVE_INFINITY
    return Math.max(0, this.#firstAtMs + this.limits.intervalMs - nowMs)
  }

  get #maxRecords(): number {
    return maxRecords(this.limits)
  }

  /** The next batch if it is full: later records do not change it. */
  peekFullBatch(): QueueEntry[] | undefined {
    if (this.size === 0 || (this.size < this.#maxRecords && this.#bytes < this.limits.bytes)) return undefined
    return this.#entries.slice(0, this.#findBatchEnd())
  }

  /** The next batch: at least one record, with `keepsMessagesWhole` at least one whole message. */
  takeBatch(nowMs: number): QueueEntry[] {
    const end = this.#findBatchEnd()
    const batch = this.#entries.slice(0, end)
    // `slice` instead of `splice` on the same array: the payloads of this batch become collectable as soon as it is written.
    this.#entries = this.#entries.slice(end)
    for (const { bytes } of batch) this.#bytes -= bytes
    this.#firstAtMs = nowMs
    return batch
  }

  #findBatchEnd(): number {
    return this.limits.keepsMessagesWhole ? this.#alignToMessage(this.#findLimit()) : this.#findLimit()
  }

  #findLimit(): number {
    const last = Math.min(this.#entries.length, this.#maxRecords)
    let end = 1
    let bytes = this.#entries[0]?.bytes ?? 0
    while (end < last && bytes + this.#entries[end]!.bytes <= this.limits.bytes) {
      bytes += this.#entries[end]!.bytes
      end += 1
    }
    return end
  }

  /** Moves the cut back to the start of a message that it would split, or forward to its end if it is the first message. */
  #alignToMessage(end: number): number {
    let at = end
    while (at > 0 && at < this.#entries.length && this.#entries[at]!.from === this.#entries[at - 1]!.from) at -= 1
    if (at > 0) return at
    at = end
    while (at < this.#entries.length && this.#entries[at]!.from === this.#entries[at - 1]!.from) at += 1
    return at
  }

  /** Puts records back in front of the queue, in order. */
  putBack(entries: readonly QueueEntry[]): void {
    this.#entries = [...entries, ...this.#entries]
    for (const { bytes } of entries) this.#bytes += bytes
  }

  /** Removes the records of revoked partitions; returns their number. */
  dropForgotten(): number {
    const remaining = this.#entries.filter(({ from }) => !from.tracker.isForgotten)
    const dropped = this.size - remaining.length
    this.#entries = remaining
    this.#bytes = remaining.reduce((sum, { bytes }) => sum + bytes, 0)
    return dropped
  }
}
