// Queue, batcher and write loop of one sink. The main sink, every route and the errors sink have one sink worker each.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Capabilities, ConnectorError, Partition, Position, Positions, Sink } from '../../connectors/connector.ts'
import { asBytes } from '../../message/message.ts'
import type { InFlightMessage, QueueEntry } from '../pipeline/in-flight-message.ts'
import { createMutex, Waiter } from '../pipeline/waiter.ts'
import { BatchNotWritten, BatchWriter, type BatchWriterSettings, type RejectionResult } from './batch-writer.ts'
import { Batcher, type BatchLimits } from './batcher.ts'

export interface SinkWorkerDeps {
  readonly sink: Sink
  readonly clock: Clock
  /** Aborted when the processor stops. */
  readonly stopping: AbortSignal
  compare(left: Position, right: Position): number
  onAttempt(sinkWorker: SinkWorker, entries: readonly QueueEntry[]): void
  /** The sink acknowledged the records. */
  onWritten(sinkWorker: SinkWorker, entries: readonly QueueEntry[], tookMs: number): void
  /** The record is at or below the position that the sink stores. */
  onAlreadyWritten(sinkWorker: SinkWorker, entry: QueueEntry): void
  onFailure(sinkWorker: SinkWorker, error: ConnectorError, failures: number): void
  reject(sinkWorker: SinkWorker, entry: QueueEntry, error: ConnectorError, attempts: number): Promise<RejectionResult>
  /** A rejected record was written in a retry. */
  onAccepted(entry: QueueEntry): void
  canGiveUp(sinkWorker: SinkWorker, error: ConnectorError): boolean
  readonly coverage: OffsetCoverage
  /** True while the source cannot read more, so a partial batch must not wait for more records. */
  isBudgetSpent(): boolean
  /** Commits of the source and transactions of a sink exclude each other. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
  /** Called after every batch; awaited, so that ackGranularity message can commit. */
  onFlush(): Promise<void>
}

/** For transactional sinks: which records may be committed now, and the resulting prefixes. */
export interface OffsetCoverage {
  select(entries: readonly QueueEntry[]): { entries: QueueEntry[]; rest: QueueEntry[]; positions: Positions }
  /** Resolves when `select` may return more; rejects with BatchNotWritten when the process ends first. */
  waitForChange(): Promise<void>
}

export interface SinkWorkerOptions {
  /** `default` for the main sink, the route's name or condition, or `errors`. */
  readonly name: string
  readonly role: 'main' | 'route' | 'errors'
  readonly sinkType: string
  readonly limits: BatchLimits
  readonly writesBytes: boolean
  readonly writer: BatchWriterSettings
  /** Skips records that the sink already has; off if positions may come late. */
  readonly skipsWritten: boolean
  /** Number of records that may wait beside a full batch. */
  readonly queueMax: number
}

export class SinkWorker {
  readonly options: SinkWorkerOptions
  readonly #deps: SinkWorkerDeps
  readonly #batcher: Batcher
  readonly #writer: BatchWriter
  readonly #highWater = new Map<Partition, Position>()
  /** Partitions without further stored positions, because a message of theirs stays in flight on purpose. */
  readonly #frozenPartitions = new Set<Partition>()
  readonly #pendingDeadLetters = new Set<Promise<unknown>>()
  #capabilities: Capabilities = { exactlyOnce: 'AtLeastOnce', isUpsert: false }
  #isDraining = false
  /** Callers that need queued records written now, such as a revocation. */
  #earlyFlushRequests = 0
  #isStopped = false
  /** Time of the last acknowledgement in the current batch, or of its start; undefined while no batch is written. */
  writingSinceMs: number | undefined
  /** First record of the prepared batch. */
  #firstPrepared: QueueEntry | undefined
  readonly #exclusively = createMutex()
  /** The last call between writes failed. */
  #needsReconnect = false
  readonly #queueChanged = new Waiter()
  readonly #roomChanged = new Waiter()
  /** Since when the sink fails; undefined while it works. */
  failingSinceMs: number | undefined
  lastError: ConnectorError | undefined

  constructor(deps: SinkWorkerDeps, options: SinkWorkerOptions) {
    this.#deps = deps
    this.options = options
    this.#batcher = new Batcher(options.limits)
    this.#writer = new BatchWriter(
      {
        sink: deps.sink,
        clock: deps.clock,
        stopping: deps.stopping,
        canIsolate: true,
        toPositions: (entries) => (this.isTransactional ? deps.coverage.select(entries).positions : this.#lastPositions(entries)),
        waitForDeadLetters: () => this.#waitForDeadLetters(),
        onAttempt: (entries) => deps.onAttempt(this, entries),
        onWritten: (entries, tookMs) => this.#recordWrite(entries, tookMs),
        onFailure: (error, failures) => this.#recordFailure(error, failures),
        canGiveUp: (error) => deps.canGiveUp(this, error),
        reject: (entry, error, attempts) => deps.reject(this, entry, error, attempts),
        onAccepted: (entry) => deps.onAccepted(entry),
        onConnect: (capabilities) => this.#adopt(capabilities),
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
    return ['PositionInSink', 'SnapshotSummary', 'DedupToken'].includes(this.#capabilities.exactlyOnce)
  }

  get queuedRecords(): number {
    return this.#batcher.size
  }

  get isIdle(): boolean {
    return this.#batcher.size === 0 && this.writingSinceMs === undefined
  }

  async connect(): Promise<void> {
    this.#adopt(await this.#deps.sink.connect())
  }

  #adopt(capabilities: Capabilities): void {
    this.#capabilities = capabilities
    const keepsMessagesWhole = this.#capabilities.exactlyOnce !== 'AtLeastOnce' && this.#capabilities.exactlyOnce !== 'Unavailable'
    this.#batcher.limits = { ...this.options.limits, keepsMessagesWhole }
  }

  async close(): Promise<void> {
    await this.#deps.sink.close()
  }

  async forgetPositions(): Promise<void> {
    await this.#runBetweenWrites(() => this.#deps.sink.forget())
  }

  async takeOverPositions(partitions?: readonly Partition[]): Promise<void> {
    if (!this.keepsPositions) return
    const marks = await this.#runBetweenWrites(() => this.#deps.sink.highWater(partitions))
    for (const [partition, position] of marks) this.#highWater.set(partition, position)
  }

  /** Runs a call that uses the sink's connection between two writes. Reconnects after a failure. */
  #runBetweenWrites<T>(work: () => Promise<T>): Promise<T> {
    return this.#exclusively(async () => {
      if (this.#needsReconnect) await this.connect()
      this.#needsReconnect = true
      const result = await work()
      this.#needsReconnect = false
      return result
    })
  }

  /** Called in order; `wake` follows when no more records come for now. */
  push(entry: QueueEntry, nowMs: number): void {
    if (this.#isAlreadyWritten(entry.from)) return this.#deps.onAlreadyWritten(this, entry)
    if (this.options.writesBytes) entry.record = asBytes(entry.record)
    this.#batcher.push(entry, nowMs)
  }

  wake(): void {
    this.#queueChanged.wake()
    this.#prepareNext()
  }

  /** Lets the sink prepare the next full batch while it writes the current one. */
  #prepareNext(): void {
    const { sink } = this.#deps
    if (sink.prepare === undefined || this.writingSinceMs === undefined) return
    const next = this.#batcher.peekFullBatch()
    if (next === undefined || next[0] === this.#firstPrepared) return
    this.#firstPrepared = next[0]
    sink.prepare(next.map(({ record }) => record))
  }

  #isAlreadyWritten({ position, tracker }: InFlightMessage): boolean {
    if (!this.options.skipsWritten || this.#highWater.size === 0) return false
    const writtenPosition = this.#highWater.get(tracker.partition)
    return writtenPosition !== undefined && this.#deps.compare(position, writtenPosition) <= 0
  }

  /** True if another batch of records may be pushed. */
  get hasRoom(): boolean {
    return this.#batcher.size < Math.max(1, this.options.queueMax)
  }

  async waitForRoom(): Promise<void> {
    while (!this.hasRoom && !this.#isStopped) await this.#roomChanged.wait()
  }

  /** Resolves when drained or stopped; records left in the queue stay unwritten. Rejects when the process must end. */
  async run(): Promise<void> {
    try {
      while (!this.#isStopped) {
        const isUrgent = this.#isDraining || this.#earlyFlushRequests > 0 || this.#deps.isBudgetSpent()
        const waitMs = this.#batcher.getDelayMs(this.#deps.clock.monotonicMs(), isUrgent)
        if (waitMs > 0 && this.#isDraining) return
        if (waitMs > 0) await this.#queueChanged.wait({ clock: this.#deps.clock, ms: waitMs })
        else await this.#exclusively(() => this.#flushNext())
      }
    } catch (error) {
      if (!(error instanceof BatchNotWritten)) throw error
    } finally {
      this.#isStopped = true
      this.#roomChanged.wake()
    }
  }

  async #flushNext(): Promise<void> {
    const batch = this.#batcher.takeBatch(this.#deps.clock.monotonicMs())
    this.writingSinceMs = this.#deps.clock.monotonicMs()
    // After the write was sent, the next batch is filled and prepared while the sink works.
    setImmediate(() => {
      this.#roomChanged.wake()
      this.#prepareNext()
    })
    try {
      if (this.isTransactional) await this.#flushCovered(batch)
      else await this.#writer.flush(batch)
      await this.#deps.onFlush()
    } finally {
      this.writingSinceMs = undefined
    }
  }

  /** The transaction contains the source's offsets, so a batch waits for all messages read before it. */
  async #flushCovered(batch: readonly QueueEntry[]): Promise<void> {
    let remaining = batch.filter(({ from }) => !from.tracker.isForgotten)
    while (remaining.length > 0) {
      const isDone = await this.#deps.exclusively(async () => {
        const { entries, rest } = this.#deps.coverage.select(remaining)
        if (entries.length === 0) return false
        await this.#writer.flush(entries)
        remaining = rest
        return true
      })
      if (!isDone) await this.#deps.coverage.waitForChange()
      remaining = remaining.filter(({ from }) => !from.tracker.isForgotten)
    }
  }

  /** Writes the queued records, then ends the loop. */
  drain(): void {
    this.#isDraining = true
    this.#queueChanged.wake()
  }

  /** Until the returned function is called, no batch waits for more records. */
  flushEarly(): () => void {
    this.#earlyFlushRequests += 1
    this.#queueChanged.wake()
    return () => void (this.#earlyFlushRequests -= 1)
  }

  /** Ends the loop after the current write. */
  stop(): void {
    this.#isStopped = true
    this.#queueChanged.wake()
    this.#roomChanged.wake()
  }

  forgetPartitions(partitions: readonly Partition[]): void {
    this.#batcher.dropForgotten()
    for (const partition of partitions) {
      this.#highWater.delete(partition)
      this.#frozenPartitions.delete(partition)
    }
    this.#queueChanged.wake()
    this.#roomChanged.wake()
  }

  /** No later position is written before this dead letter is acknowledged. */
  waitForDeadLetter(letter: Promise<unknown>): void {
    this.#pendingDeadLetters.add(letter)
    void letter.finally(() => this.#pendingDeadLetters.delete(letter)).catch(() => {})
  }

  freezePartition(partition: Partition): void {
    this.#frozenPartitions.add(partition)
  }

  async #waitForDeadLetters(): Promise<void> {
    if (this.#pendingDeadLetters.size > 0 && (this.keepsPositions || this.isTransactional)) await Promise.all(this.#pendingDeadLetters)
  }

  /** Last position of each partition. A message that a bisection split is not complete yet. */
  #lastPositions(entries: readonly QueueEntry[]): Positions {
    const positions = new Map<Partition, Position>()
    for (const { from, isLast } of entries)
      if (isLast && !this.#frozenPartitions.has(from.tracker.partition)) positions.set(from.tracker.partition, from.position)
    return positions
  }

  #recordWrite(entries: readonly QueueEntry[], tookMs: number): void {
    this.failingSinceMs = undefined
    this.lastError = undefined
    if (this.writingSinceMs !== undefined) this.writingSinceMs = this.#deps.clock.monotonicMs()
    this.#deps.onWritten(this, entries, tookMs)
  }

  #recordFailure(error: ConnectorError, failures: number): void {
    if (error.class !== 'record') {
      this.failingSinceMs ??= this.#deps.clock.monotonicMs()
      this.lastError = error
    }
    this.#deps.onFailure(this, error, failures)
  }
}
