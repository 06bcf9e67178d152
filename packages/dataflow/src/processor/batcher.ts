// What waits for a sink, and when and where it is cut into batches. Pure but for its queue: the clock's readings come in.
import type { Item } from './open-message.ts'

export interface BatchBounds {
  /** 0: bytes and timer alone, yet never above `recordsMax`. */
  readonly records: number
  readonly bytes: number
  /** Longest wait of a record; 0: no timer. */
  readonly intervalMs: number
  /** What waits is due at once, so that batches grow with the sink's latency. */
  readonly isEager: boolean
  /** Cut between messages only: a position is kept with the batch. */
  readonly keepsMessages: boolean
}

export const recordsMax = 10_000

export class Batcher {
  bounds: BatchBounds
  #items: Item[] = []
  #bytes = 0
  #firstAtMs = 0

  constructor(bounds: BatchBounds) {
    this.bounds = bounds
  }

  get size(): number {
    return this.#items.length
  }

  get bytes(): number {
    return this.#bytes
  }

  push(item: Item, nowMs: number): void {
    if (this.size === 0) this.#firstAtMs = nowMs
    this.#items.push(item)
    this.#bytes += item.bytes
  }

  /** 0: a batch is due now. Infinity: not before more comes. */
  dueInMs(nowMs: number, isDraining = false): number {
    if (this.size === 0) return Number.POSITIVE_INFINITY
    if (isDraining || this.bounds.isEager || this.size >= this.#recordsMax || this.#bytes >= this.bounds.bytes) return 0
    if (this.bounds.intervalMs === 0) return Number.POSITIVE_INFINITY
    return Math.max(0, this.#firstAtMs + this.bounds.intervalMs - nowMs)
  }

  get #recordsMax(): number {
    return this.bounds.records === 0 ? recordsMax : Math.min(this.bounds.records, recordsMax)
  }

  /** The records of the next batch where that is a full one: whatever comes behind it will not change it. */
  nextFull(): Item[] | undefined {
    if (this.size === 0 || (this.size < this.#recordsMax && this.#bytes < this.bounds.bytes)) return undefined
    return this.#items.slice(0, this.#batchEnd())
  }

  /** The next batch; at least one record, and with `keepsMessages` at least one whole message. */
  cut(nowMs: number): Item[] {
    const end = this.#batchEnd()
    const batch = this.#items.slice(0, end)
    // What was cut off is held here no longer: payloads that wait beside it would outlive their write by thousands of records.
    this.#items = this.#items.slice(end)
    for (const { bytes } of batch) this.#bytes -= bytes
    this.#firstAtMs = nowMs
    return batch
  }

  #batchEnd(): number {
    return this.bounds.keepsMessages ? this.#messageEnd(this.#boundedEnd()) : this.#boundedEnd()
  }

  #boundedEnd(): number {
    const last = Math.min(this.#items.length, this.#recordsMax)
    let end = 1
    let bytes = this.#items[0]?.bytes ?? 0
    while (end < last && bytes + this.#items[end]!.bytes <= this.bounds.bytes) {
      bytes += this.#items[end]!.bytes
      end += 1
    }
    return end
  }

  /** Back to the beginning of a message that would be cut in two, or forward to its end when it stands first. */
  #messageEnd(end: number): number {
    let at = end
    while (at > 0 && at < this.#items.length && this.#items[at]!.from === this.#items[at - 1]!.from) at -= 1
    if (at > 0) return at
    at = end
    while (at < this.#items.length && this.#items[at]!.from === this.#items[at - 1]!.from) at += 1
    return at
  }

  /** In front of what waits, in order. */
  putBack(items: readonly Item[]): void {
    this.#items = [...items, ...this.#items]
    for (const { bytes } of items) this.#bytes += bytes
  }

  /** Takes out what belongs to partitions that were given back. */
  forget(): number {
    const kept = this.#items.filter(({ from }) => !from.tracker.isForgotten)
    const gone = this.size - kept.length
    this.#items = kept
    this.#bytes = kept.reduce((sum, { bytes }) => sum + bytes, 0)
    return gone
  }
}
