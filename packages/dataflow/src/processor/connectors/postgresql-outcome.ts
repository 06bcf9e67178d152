// Whether a batch whose answer never came is in. Positions that stand in the target exactly where it would have left them say so; further
// ones do not, since a source that reads back hands out late rows behind newer ones.
import type pg from 'pg'
import type { Positions, SinkContext } from './connector.ts'
import { isRefused } from './postgresql-errors.ts'
import { type PositionsTable, readPositions, sourceName } from './postgresql-positions.ts'

export class Outcome {
  readonly #source: SinkContext['source']
  /** Of the batch of which nobody knows whether it was committed. */
  #unknown: Positions | undefined

  constructor(source: SinkContext['source']) {
    this.#source = source
  }

  /** `commit` may take effect although it fails. */
  async of<T>(positions: Positions, commit: () => Promise<T>): Promise<T> {
    this.#unknown = positions
    try {
      const result = await commit()
      this.#unknown = undefined
      return result
    } catch (thrown) {
      if (isRefused(thrown)) this.#unknown = undefined
      throw thrown
    }
  }

  /** Whether the next batch is in: it is the last one then, or a part of it. */
  async isIn(client: pg.Client, kept: PositionsTable | undefined, positions: Positions): Promise<boolean> {
    const unknown = this.#unknown
    if (unknown === undefined || kept === undefined || positions.size === 0) return false
    const { origin } = this.#source
    const stored = await readPositions(
      client,
      kept,
      [...positions.keys()].map((partition) => sourceName(origin, partition)),
    )
    this.#unknown = undefined
    return [...positions].every(([partition, position]) => {
      const [at, wanted] = [stored.get(sourceName(origin, partition)), unknown.get(partition)]
      if (at === undefined || wanted === undefined) return false
      return this.#source.compare(at, wanted) === 0 && this.#source.compare(position, wanted) <= 0
    })
  }
}
