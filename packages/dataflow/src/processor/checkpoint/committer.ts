// Commits the prefix of each partition to the source: by time, after a number of messages, and on request. One commit runs at a time;
// a failed one is retried with the then current prefix.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Source } from '../../connectors/connector.ts'
import type { Partition, Position } from '../../message/message.ts'
import type { InFlightMessages, OutcomeCounts } from '../pipeline/in-flight-messages.ts'
import { type RetryPolicy, retryDelayMs } from '../pipeline/retry.ts'
import { Waiter } from '../pipeline/waiter.ts'

export interface CommitterDeps {
  readonly clock: Clock
  readonly source: Pick<Source, 'commit' | 'compare'>
  readonly inFlight: InFlightMessages
  /** Commits and transactions of a sink exclude each other. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
  onCommit(positions: ReadonlyMap<Partition, Position>, counts: OutcomeCounts): void
  onFailure(error: unknown): void
}

export class Committer {
  readonly #deps: CommitterDeps
  readonly #everyMs: number
  readonly #messages: number
  readonly #retry: RetryPolicy
  readonly #committed = new Map<Partition, Position>()
  #running: Promise<void> | undefined
  #advanced = 0
  readonly #waiter = new Waiter()

  constructor(deps: CommitterDeps, settings: { commitEveryMs: number; commitMessages: number; connectRetry: RetryPolicy }) {
    this.#deps = deps
    this.#everyMs = settings.commitEveryMs
    this.#messages = settings.commitMessages
    this.#retry = settings.connectRetry
  }

  recordAdvance(by: number): void {
    this.#advanced += by
    if (this.#advanced >= this.#messages) this.#waiter.wake()
  }

  /** Commits by time and number of messages until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#advanced < this.#messages) await this.#waiter.wait({ clock: this.#deps.clock, ms: this.#everyMs, signal })
      if (!signal.aborted) await this.commit().catch((error: unknown) => this.#deps.onFailure(error))
    }
  }

  /** Commits all current prefixes. */
  async commit(): Promise<void> {
    while (this.#running !== undefined) await this.#running.catch(() => {})
    this.#running = this.#deps.exclusively(() => this.#commitAdvanced()).finally(() => (this.#running = undefined))
    return this.#running
  }

  /** Like `commit`, but reports a failure and retries until the signal is aborted. */
  async commitWithRetry(stopping: AbortSignal): Promise<void> {
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.commit()
      } catch (error) {
        this.#deps.onFailure(error)
      }
      // The last commit of the flow includes this prefix.
      if (stopping.aborted) return
      await this.#deps.clock.sleep(retryDelayMs(this.#retry, failures), stopping).catch(() => {})
    }
  }

  async #commitAdvanced(): Promise<void> {
    const counts = this.#deps.inFlight.getCounts()
    const positions = new Map<Partition, Position>()
    for (const [partition, position] of this.#deps.inFlight.getPrefixes())
      if (this.#isNew(partition, position)) positions.set(partition, position)
    this.#advanced = 0
    if (positions.size === 0) return
    await this.#deps.source.commit(positions)
    for (const [partition, position] of positions) this.#committed.set(partition, position)
    this.#deps.onCommit(positions, counts)
  }

  /** Positions only move forward. */
  #isNew(partition: Partition, position: Position): boolean {
    const committed = this.#committed.get(partition)
    return committed === undefined || this.#deps.source.compare(position, committed) > 0
  }

  get committedPositions(): ReadonlyMap<Partition, Position> {
    return this.#committed
  }

  forgetPartitions(partitions: readonly Partition[]): void {
    for (const partition of partitions) this.#committed.delete(partition)
  }
}
