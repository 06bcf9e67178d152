// Tells the source how far everything has ended: every second, after ten thousand messages, and when asked. One commit at a time; one
// that fails is tried again, which neither loses nor repeats an ending.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Source } from './connectors/connector.ts'
import type { Partition, Position } from './message.ts'
import type { EndingCounts, OpenMessages } from './open-messages.ts'
import { Waiter } from './waiter.ts'

export interface CommitterDeps {
  readonly clock: Clock
  readonly source: Pick<Source, 'commit' | 'compare'>
  readonly open: OpenMessages
  /** Keeps commits and transactions of a sink apart. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
  committed(positions: ReadonlyMap<Partition, Position>, counts: EndingCounts): void
  failed(error: unknown): void
}

export class Committer {
  readonly #deps: CommitterDeps
  readonly #everyMs: number
  readonly #messages: number
  readonly #done = new Map<Partition, Position>()
  #running: Promise<void> | undefined
  #moved = 0
  readonly #waiter = new Waiter()

  constructor(deps: CommitterDeps, settings: { commitEveryMs: number; commitMessages: number }) {
    this.#deps = deps
    this.#everyMs = settings.commitEveryMs
    this.#messages = settings.commitMessages
  }

  moved(by: number): void {
    this.#moved += by
    if (this.#moved >= this.#messages) this.#waiter.wake()
  }

  /** Commits by time and number until the signal; failures are told and tried again. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#moved < this.#messages) await this.#waiter.wait({ clock: this.#deps.clock, ms: this.#everyMs, signal })
      if (!signal.aborted) await this.commit().catch((error: unknown) => this.#deps.failed(error))
    }
  }

  /** Everything that has ended up to now. */
  async commit(): Promise<void> {
    while (this.#running !== undefined) await this.#running.catch(() => {})
    this.#running = this.#deps.exclusively(() => this.#commitMoved()).finally(() => (this.#running = undefined))
    return this.#running
  }

  async #commitMoved(): Promise<void> {
    const counts = this.#deps.open.counts()
    const positions = new Map<Partition, Position>()
    for (const [partition, position] of this.#deps.open.prefixes()) if (this.#isNew(partition, position)) positions.set(partition, position)
    this.#moved = 0
    if (positions.size === 0) return
    await this.#deps.source.commit(positions)
    for (const [partition, position] of positions) this.#done.set(partition, position)
    this.#deps.committed(positions, counts)
  }

  /** Positions only move forward. */
  #isNew(partition: Partition, position: Position): boolean {
    const done = this.#done.get(partition)
    return done === undefined || this.#deps.source.compare(position, done) > 0
  }

  get done(): ReadonlyMap<Partition, Position> {
    return this.#done
  }

  forget(partitions: readonly Partition[]): void {
    for (const partition of partitions) this.#done.delete(partition)
  }
}
