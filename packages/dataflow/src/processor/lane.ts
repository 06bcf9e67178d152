// The way to one sink: what waits for it, the loop that cuts batches and has them written one after the other, and what the sink has
// promised. The main sink, every route and the errors sink have a lane each.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type BatchBounds, Batcher } from './batcher.ts'
import type { Capabilities, ConnectorError, Partition, Position, Positions, Sink } from './connectors/connector.ts'
import { createExclusive } from './exclusive.ts'
import { asBytes } from './message.ts'
import type { Item, OpenMessage } from './open-message.ts'
import { Waiter } from './waiter.ts'
import { Unwritten, type Verdict, Writer, type WriterSettings } from './writer.ts'

export interface LaneDeps {
  readonly sink: Sink
  readonly clock: Clock
  /** Aborted when the process stops. */
  readonly stopping: AbortSignal
  compare(left: Position, right: Position): number
  attempt(lane: Lane, items: readonly Item[]): void
  /** Acknowledged. */
  written(lane: Lane, items: readonly Item[], tookMs: number): void
  /** At or below the sink's high water: written before. */
  writtenBefore(lane: Lane, item: Item): void
  failed(lane: Lane, error: ConnectorError, failures: number): void
  guilty(lane: Lane, item: Item, error: ConnectorError, attempts: number): Promise<Verdict>
  /** A guilty record is guilty no more. */
  released(item: Item): void
  givesUp(lane: Lane, error: ConnectorError): boolean
  readonly coverage: Coverage
  /** Keeps commits of the source and transactions apart. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
  /** After every batch: with commits per message it is awaited. */
  flushed(): Promise<void>
}

/** Of transactional sinks: which items may be committed now, and the prefixes that makes. */
export interface Coverage {
  of(items: readonly Item[]): { items: Item[]; rest: Item[]; positions: Positions }
  /** Resolves when `of` may answer otherwise; rejects with Unwritten when the process ends first. */
  changed(): Promise<void>
}

export interface LaneOptions {
  /** `default` for the main sink, else the route's name or condition; `errors`. */
  readonly name: string
  readonly role: 'main' | 'route' | 'errors'
  readonly sinkType: string
  readonly bounds: BatchBounds
  readonly writesBytes: boolean
  readonly writer: WriterSettings
  /** Skips what the sink has; off where positions may come late. */
  readonly skips: boolean
  /** Records that may wait beside a full batch. */
  readonly queueMax: number
}

export class Lane {
  readonly options: LaneOptions
  readonly #deps: LaneDeps
  readonly #batcher: Batcher
  readonly #writer: Writer
  readonly #highWater = new Map<Partition, Position>()
  /** No position is kept any more for these: a message of theirs stays open on purpose. */
  readonly #frozen = new Set<Partition>()
  readonly #letters = new Set<Promise<unknown>>()
  #capabilities: Capabilities = { exactlyOnce: 'AtLeastOnce', isUpsert: false }
  #isDraining = false
  /** Partitions are about to be given back: what waits is due now. */
  #hurries = 0
  #isStopped = false
  #isWriting = false
  /** First of the batch that was made ready. */
  #preparedFrom: Item | undefined
  readonly #exclusively = createExclusive()
  /** The last call beside a write failed. */
  #isBroken = false
  readonly #news = new Waiter()
  readonly #space = new Waiter()
  /** When the sink began to fail; undefined while it works. */
  failingSinceMs: number | undefined
  lastError: ConnectorError | undefined

  constructor(deps: LaneDeps, options: LaneOptions) {
    this.#deps = deps
    this.options = options
    this.#batcher = new Batcher(options.bounds)
    this.#writer = new Writer(
      {
        sink: deps.sink,
        clock: deps.clock,
        stopping: deps.stopping,
        isolates: true,
        positionsOf: (items) => (this.isTransactional ? deps.coverage.of(items).positions : this.#positionsOf(items)),
        settle: () => this.#settle(),
        attempt: (items) => deps.attempt(this, items),
        written: (items, tookMs) => this.#written(items, tookMs),
        failed: (error, failures) => this.#failed(error, failures),
        givesUp: (error) => deps.givesUp(this, error),
        guilty: (item, error, attempts) => deps.guilty(this, item, error, attempts),
        released: (item) => deps.released(item),
      },
      options.writer,
    )
  }

  get capabilities(): Capabilities {
    return this.#capabilities
  }

  get isTransactional(): boolean {
    return this.#capabilities.exactlyOnce === 'Transactions'
  }

  get keepsPositions(): boolean {
    return this.#capabilities.exactlyOnce === 'PositionInSink' || this.#capabilities.exactlyOnce === 'SnapshotSummary'
  }

  get waiting(): number {
    return this.#batcher.size
  }

  get isIdle(): boolean {
    return this.#batcher.size === 0 && !this.#isWriting
  }

  async connect(): Promise<void> {
    this.#capabilities = await this.#deps.sink.connect()
    const keepsMessages = this.#capabilities.exactlyOnce !== 'AtLeastOnce' && this.#capabilities.exactlyOnce !== 'Unavailable'
    this.#batcher.bounds = { ...this.options.bounds, keepsMessages }
  }

  async close(): Promise<void> {
    await this.#deps.sink.close()
  }

  async forgetPositions(): Promise<void> {
    await this.#apart(() => this.#deps.sink.forget())
  }

  async takeOver(partitions?: readonly Partition[]): Promise<void> {
    if (!this.keepsPositions) return
    const marks = await this.#apart(() => this.#deps.sink.highWater(partitions))
    for (const [partition, position] of marks) this.#highWater.set(partition, position)
  }

  /** Never beside a write: both use the sink's connection. After a failure it is opened anew. */
  #apart<T>(work: () => Promise<T>): Promise<T> {
    return this.#exclusively(async () => {
      if (this.#isBroken) await this.connect()
      this.#isBroken = true
      const result = await work()
      this.#isBroken = false
      return result
    })
  }

  /** In order. Followed by `kick` when no more comes for now. */
  push(item: Item, nowMs: number): void {
    if (this.#isBelow(item.from)) return this.#deps.writtenBefore(this, item)
    if (this.options.writesBytes) item.record = asBytes(item.record)
    this.#batcher.push(item, nowMs)
  }

  kick(): void {
    this.#news.wake()
    this.#prepareNext()
  }

  /** While the sink is busy with one batch, the next one is made ready for it. */
  #prepareNext(): void {
    const { sink } = this.#deps
    if (sink.prepare === undefined || !this.#isWriting) return
    const next = this.#batcher.nextFull()
    if (next === undefined || next[0] === this.#preparedFrom) return
    this.#preparedFrom = next[0]
    sink.prepare(next.map(({ record }) => record))
  }

  #isBelow({ position, tracker }: OpenMessage): boolean {
    if (!this.options.skips || this.#highWater.size === 0) return false
    const mark = this.#highWater.get(tracker.partition)
    return mark !== undefined && this.#deps.compare(position, mark) <= 0
  }

  /** Whether another batch of items may be pushed. */
  get hasRoom(): boolean {
    return this.#batcher.size < Math.max(1, this.options.queueMax)
  }

  async room(): Promise<void> {
    while (!this.hasRoom && !this.#isStopped) await this.#space.wait()
  }

  /** Ends when drained or stopped; what is left then stays unwritten. Rejects when the process must end. */
  async run(): Promise<void> {
    try {
      while (!this.#isStopped) {
        const waitMs = this.#batcher.dueInMs(this.#deps.clock.monotonicMs(), this.#isDraining || this.#hurries > 0)
        if (waitMs > 0 && this.#isDraining) return
        if (waitMs > 0) await this.#news.wait({ clock: this.#deps.clock, ms: waitMs })
        else await this.#exclusively(() => this.#flushNext())
      }
    } catch (error) {
      if (!(error instanceof Unwritten)) throw error
    } finally {
      this.#isStopped = true
      this.#space.wake()
    }
  }

  async #flushNext(): Promise<void> {
    const batch = this.#batcher.cut(this.#deps.clock.monotonicMs())
    this.#isWriting = true
    // Once this one is on its way: the next one fills and is made ready while the sink is busy.
    setImmediate(() => {
      this.#space.wake()
      this.#prepareNext()
    })
    try {
      if (this.isTransactional) await this.#flushCovered(batch)
      else await this.#writer.flush(batch)
      await this.#deps.flushed()
    } finally {
      this.#isWriting = false
    }
  }

  /** The source's offsets are part of the transaction, so a batch waits for everything read before it. */
  async #flushCovered(batch: readonly Item[]): Promise<void> {
    let left = batch.filter(({ from }) => !from.tracker.isForgotten)
    while (left.length > 0) {
      const isDone = await this.#deps.exclusively(async () => {
        const { items, rest } = this.#deps.coverage.of(left)
        if (items.length === 0) return false
        await this.#writer.flush(items)
        left = rest
        return true
      })
      if (!isDone) await this.#deps.coverage.changed()
      left = left.filter(({ from }) => !from.tracker.isForgotten)
    }
  }

  /** Write what waits, then end. */
  drain(): void {
    this.#isDraining = true
    this.#news.wake()
  }

  /** Until the returned function is called nothing waits for company. */
  hurry(): () => void {
    this.#hurries += 1
    this.#news.wake()
    return () => void (this.#hurries -= 1)
  }

  /** End after the write under way. */
  stop(): void {
    this.#isStopped = true
    this.#news.wake()
    this.#space.wake()
  }

  forget(partitions: readonly Partition[]): void {
    this.#batcher.forget()
    for (const partition of partitions) {
      this.#highWater.delete(partition)
      this.#frozen.delete(partition)
    }
    this.#news.wake()
    this.#space.wake()
  }

  /** Nothing that keeps a position behind this letter is written before it is acknowledged. */
  await(letter: Promise<unknown>): void {
    this.#letters.add(letter)
    void letter.finally(() => this.#letters.delete(letter)).catch(() => {})
  }

  freeze(partition: Partition): void {
    this.#frozen.add(partition)
  }

  async #settle(): Promise<void> {
    if (this.#letters.size > 0 && (this.keepsPositions || this.isTransactional)) await Promise.all(this.#letters)
  }

  /** The last position of each partition. A message cut in two by a search for the guilty is not yet over. */
  #positionsOf(items: readonly Item[]): Positions {
    const positions = new Map<Partition, Position>()
    for (const { from, isLast } of items)
      if (isLast && !this.#frozen.has(from.tracker.partition)) positions.set(from.tracker.partition, from.position)
    return positions
  }

  #written(items: readonly Item[], tookMs: number): void {
    this.failingSinceMs = undefined
    this.lastError = undefined
    this.#deps.written(this, items, tookMs)
  }

  #failed(error: ConnectorError, failures: number): void {
    if (error.class !== 'record') {
      this.failingSinceMs ??= this.#deps.clock.monotonicMs()
      this.lastError = error
    }
    this.#deps.failed(this, error, failures)
  }
}
