// What a sink made of the next batch while the last one was on its way: good for exactly those records, once.
import type { Rec } from './connector.ts'

export class Prepared<T> {
  #batch: readonly Rec[] = []
  #made: T | undefined

  keep(batch: readonly Rec[], made: T | undefined): void {
    this.#batch = batch
    this.#made = made
  }

  /** Undefined for any other batch. */
  take(batch: readonly Rec[]): T | undefined {
    const made = this.#made
    const isSame = made !== undefined && batch.length === this.#batch.length && batch.every((record, at) => record === this.#batch[at])
    this.keep([], undefined)
    return isSame ? made : undefined
  }
}
