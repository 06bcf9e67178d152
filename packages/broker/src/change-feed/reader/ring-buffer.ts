// Keeps the last published batches in memory. A starting stream replays the batches published meanwhile, and a stream that reconnects
// soon resumes without a database query. Bounded by rows and age; a dropped batch is reported as missing, never as empty.
import type { ChangeRow } from '../store/change-log.ts'
import { covers, type DatabaseSnapshot, isNewTo } from './cursor.ts'

export interface Batch {
  readonly number: number
  readonly at: number
  readonly rows: readonly ChangeRow[]
  /** Position of the feed after this batch. */
  readonly cursor: DatabaseSnapshot
}

export class RingBuffer {
  readonly #rowsMax: number
  readonly #ageMs: number
  #batches: Batch[] = []
  #rows = 0
  /** Batches below this number were dropped. */
  #droppedBelow = 0
  /** The buffer holds every row since this database snapshot; null before the first read. */
  #start: DatabaseSnapshot | null = null

  constructor(limits: { rowsMax: number; ageMs: number }) {
    this.#rowsMax = limits.rowsMax
    this.#ageMs = limits.ageMs
  }

  append(batch: Batch): void {
    this.#batches.push(batch)
    this.#rows += batch.rows.length
    let drop = 0
    while (drop < this.#batches.length - 1 && this.#isOver(this.#batches[drop]!, batch.at)) {
      this.#rows -= this.#batches[drop]!.rows.length
      drop += 1
    }
    if (drop === 0) return
    this.#droppedBelow = this.#batches[drop]!.number
    this.#start = this.#batches[drop - 1]!.cursor
    this.#batches = this.#batches.slice(drop)
  }

  /** Batches `first` and later, in order; null if one of them was dropped. */
  batchesSince(first: number): readonly Batch[] | null {
    if (first < this.#droppedBelow) return null
    return this.#batches.filter(({ number }) => number >= first)
  }

  /** Rows that `cursor` cannot see; null if the buffer does not reach back to it. */
  rowsSince(cursor: DatabaseSnapshot): ChangeRow[] | null {
    if (this.#start === null || !covers(cursor, this.#start)) return null
    return this.#batches.flatMap(({ rows, cursor: end }) => (covers(cursor, end) ? [] : rows.filter((row) => isNewTo(cursor, row.xid))))
  }

  /** Drops all batches below `next`. From `start` on, every row is kept. */
  clear(next: number, start: DatabaseSnapshot | null): void {
    this.#droppedBelow = next
    this.#start = start
    this.#batches = []
    this.#rows = 0
  }

  #isOver(oldest: Batch, now: number): boolean {
    return this.#rows > this.#rowsMax || now - oldest.at > this.#ageMs
  }
}
