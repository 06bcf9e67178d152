// Result of preparing the next batch: valid once, for exactly those records.
import type { Rec } from './connector.ts'

export class PreparedBatch<T> {
  #batch: readonly Rec[] = []
  #made: T | undefined

  keep(batch: readonly Rec[], made: T | undefined): void {
    this.#batch = batch
    this.#made = made
  }

  /** Undefined for any other batch. */
  take(batch: readonly Rec[]): T | undefined {
    const result = this.#made
    const isSame = result !== undefined && batch.length === this.#batch.length && batch.every((record, at) => record === this.#batch[at])
    this.keep([], undefined)
    return isSame ? result : undefined
  }
}
