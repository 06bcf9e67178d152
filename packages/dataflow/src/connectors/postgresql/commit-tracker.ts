// Tracks committed positions in the target: after the last acknowledged commit, and after batches without a response. Such
// a batch may commit at any later time, from a backend that waits for a lock. Every batch therefore names the position it expects, and the
// server rejects it if another attempt came first.
import type pg from 'pg'
import { ConnectorError, type Partition, type Position, type Positions, type SinkContext } from '../connector.ts'
import { isRefused } from './errors.ts'
import { type ExpectedPosition, type PositionsTable, readPositions, sourceName } from './positions.ts'

export class CommitTracker {
  readonly #source: SinkContext['source']
  /** By source; undefined: no row, or a row without a position. */
  readonly #committed = new Map<string, Position | undefined>()
  /** All positions of the flow were read, so an absent source has none. */
  #hasReadAll = false
  /** Positions of batches without a response, by their text, so that repeated attempts need no extra memory. */
  readonly #unanswered = new Map<string, Positions>()

  constructor(source: SinkContext['source']) {
    this.#source = source
  }

  /** Positions read from the target; `isAll` if no other source of the flow has one. */
  setCommitted(positions: ReadonlyMap<string, Position | undefined>, isAll: boolean): void {
    for (const [source, position] of positions) this.#committed.set(source, position)
    this.#hasReadAll ||= isAll
  }

  /** The positions of the flow were deleted. */
  clear(): void {
    this.#committed.clear()
    this.#unanswered.clear()
  }

  getExpected(source: string): ExpectedPosition {
    if (!this.#committed.has(source) && !this.#hasReadAll) return 'any'
    return { position: this.#committed.get(source) }
  }

  /** Runs `commit`, which may take effect although it fails or the caller stopped waiting. */
  async track<T>(positions: Positions, commit: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (positions.size === 0) return commit()
    const key = JSON.stringify([...positions])
    const isRepeated = this.#unanswered.has(key)
    this.#unanswered.set(key, positions)
    try {
      const result = await commit()
      if (!signal?.aborted) this.#answered(positions)
      return result
    } catch (thrown) {
      if (isRefused(thrown) && !isRepeated && !signal?.aborted) this.#unanswered.delete(key)
      throw thrown
    }
  }

  #answered(positions: Positions): void {
    for (const [partition, position] of positions) this.#committed.set(this.#sourceName(partition), position)
    // Earlier attempts expect a position that the target no longer has.
    this.#unanswered.clear()
  }

  /** Whether the next batch is already in the target: then it is the batch without a response, or a part of it. A later position does
   *  not prove it, because a source with an overlap emits late rows after newer ones. */
  async isCommitted(client: pg.Client, table: PositionsTable | undefined, positions: Positions): Promise<boolean> {
    if (this.#unanswered.size === 0 || table === undefined || positions.size === 0) return false
    const storedPositions = await this.#read(client, table, positions)
    const isIn = [...positions].every(([partition, position]) =>
      this.#unansweredAt(partition, storedPositions).some((wanted) => this.#source.compare(position, wanted) <= 0),
    )
    if (isIn) this.setCommitted(storedPositions, false)
    return isIn
  }

  /** Explains why the server did not move these positions: an earlier attempt of this process or another process moved them. */
  async explainRejection(client: pg.Client, table: PositionsTable, positions: Positions): Promise<ConnectorError> {
    const storedPositions = await this.#read(client, table, positions)
    const isOwn = [...positions.keys()].some(
      (partition) => !this.#isExpected(partition, storedPositions) && this.#unansweredAt(partition, storedPositions).length > 0,
    )
    return isOwn
      ? new ConnectorError({ class: 'transient', type: 'transient' }, 'an earlier attempt to write this batch was committed late')
      : new ConnectorError(
          { class: 'fenced', type: 'unknown' },
          'another processor has taken over the positions of this flow in the target database',
        )
  }

  /** The target has the expected position, so the server rejected the epoch. */
  #isExpected(partition: Partition, storedPositions: ReadonlyMap<string, Position>): boolean {
    const name = this.#sourceName(partition)
    const [at, expected] = [storedPositions.get(name), this.#committed.get(name)]
    return at !== undefined && expected !== undefined && this.#source.compare(at, expected) === 0
  }

  /** Positions without a response that the target now has for this partition. */
  #unansweredAt(partition: Partition, storedPositions: ReadonlyMap<string, Position>): Position[] {
    const at = storedPositions.get(this.#sourceName(partition))
    if (at === undefined) return []
    return [...this.#unanswered.values()].flatMap((positions) => {
      const unanswered = positions.get(partition)
      return unanswered !== undefined && this.#source.compare(at, unanswered) === 0 ? [unanswered] : []
    })
  }

  #read(client: pg.Client, table: PositionsTable, positions: Positions): Promise<Map<string, Position>> {
    return readPositions(
      client,
      table,
      [...positions.keys()].map((partition) => this.#sourceName(partition)),
    )
  }

  #sourceName(partition: Partition): string {
    return sourceName(this.#source.origin, partition)
  }
}
