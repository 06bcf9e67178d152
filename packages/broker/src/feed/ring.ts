// The last batches the reader published, kept so that a stream which starts can replay what was published meanwhile, and one
// that comes back after a moment need not ask the database. Bounded by rows and by age; a batch that was dropped is known to
// be gone, never mistaken for empty.
import type { ChangeRow } from '../store/change-log.ts'
import { covers, isNewTo, type Snapshot } from './cursor.ts'

export interface Batch {
  readonly number: number
  readonly at: number
  readonly rows: readonly ChangeRow[]
  /** Everything up to here was read once this batch was. */
  readonly cursor: Snapshot
}

export class Ring {
  readonly #rowsMax: number
  readonly #ageMs: number
  #batches: Batch[] = []
  #rows = 0
  /** Batches below this number are gone. */
  #goneBelow = 0
  /** Whoever has seen all that this snapshot had finds the rest here; null: nothing was read yet. */
  #start: Snapshot | null = null

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
    this.#goneBelow = this.#batches[drop]!.number
    this.#start = this.#batches[drop - 1]!.cursor
    this.#batches = this.#batches.slice(drop)
  }

  /** Batches `first` and later in order, or null when one of them is no longer here. */
  since(first: number): readonly Batch[] | null {
    if (first < this.#goneBelow) return null
    return this.#batches.filter(({ number }) => number >= first)
  }

  /** The rows that `cursor` could not see, or null when the ring does not reach back to it. */
  rowsSince(cursor: Snapshot): ChangeRow[] | null {
    if (this.#start === null || !covers(cursor, this.#start)) return null
    return this.#batches.flatMap(({ rows, cursor: end }) => (covers(cursor, end) ? [] : rows.filter((row) => isNewTo(cursor, row.xid))))
  }

  /** Forgets everything below `next`: what was read before belongs to another history. From `start` on everything is kept. */
  clear(next: number, start: Snapshot | null): void {
    this.#goneBelow = next
    this.#start = start
    this.#batches = []
    this.#rows = 0
  }

  #isOver(oldest: Batch, now: number): boolean {
    return this.#rows > this.#rowsMax || now - oldest.at > this.#ageMs
  }
}
