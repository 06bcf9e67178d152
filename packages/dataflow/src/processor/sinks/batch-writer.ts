// Writes one batch to a sink until every record has an outcome: retries while the error may pass, bisects the batch if a record is at
// fault, and rejects the records found. Only one writer calls the sink, so the order of records is kept.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Capabilities, ConnectorError, type Positions, type Sink } from '../../connectors/connector.ts'
import type { QueueEntry } from '../pipeline/in-flight-message.ts'
import { type RetryPolicy, retryDelayMs } from '../pipeline/retry.ts'
import { bisect } from './bisect.ts'
import { chooseReaction, toConnectorError } from './classify.ts'

export interface BatchWriterSettings {
  readonly retry: RetryPolicy
  /** PROCESSOR_SINK_ERROR_MAX_RETRIES. */
  readonly retriesMax: number
  /** Limit of one flush, and of one flush after the processor began to stop. */
  readonly flushMs: number
  readonly stoppingFlushMs: number
}

/** settled: the record has an outcome or will get one · retry: write the record once more. */
export type RejectionResult = 'settled' | 'retry'

/** Records without an outcome, and why the sink rejected them. */
interface RejectedBatch {
  readonly entries: readonly QueueEntry[]
  readonly error: ConnectorError
}

/** The server's own limit ends a write first. */
const answerMarginMs = 30_000

export interface BatchWriterDeps {
  readonly sink: Pick<Sink, 'connect' | 'write' | 'writeTimeoutMs'>
  readonly clock: Clock
  /** Aborted when the processor stops: waits end and no attempt is repeated. */
  readonly stopping: AbortSignal
  /** The sink was connected again; its table may have changed. */
  onConnect(capabilities: Capabilities): void
  toPositions(entries: readonly QueueEntry[]): Positions
  /** Called before every write: resolves when dead letters of earlier records are durable. */
  waitForDeadLetters(): Promise<void>
  onAttempt(entries: readonly QueueEntry[]): void
  onWritten(entries: readonly QueueEntry[], tookMs: number): void
  onFailure(error: ConnectorError, failures: number): void
  /** True if the batch is given up: every record is rejected. */
  canGiveUp(error: ConnectorError): boolean
  /** False for the errors sink: its dead letters are retried without a limit. */
  readonly canIsolate: boolean
  reject(entry: QueueEntry, error: ConnectorError, attempts: number): Promise<RejectionResult>
  /** A rejected record was written in a retry, or its partition was revoked. */
  onAccepted(entry: QueueEntry): void
}

/** The processor stops and the batch stays unwritten. */
export class BatchNotWritten extends Error {
  override name = 'Unwritten'
}

/** The process must end: fenced by another processor, or out of retries. */
export class FlowTerminated extends Error {
  override name = 'FlowEnded'
  readonly reason: 'fenced' | 'retries'
  constructor(why: 'fenced' | 'retries', cause: ConnectorError) {
    super(cause.message, { cause })
    this.reason = why
  }
}

export class BatchWriter {
  readonly #deps: BatchWriterDeps
  readonly #settings: BatchWriterSettings
  #needsConnect = false
  /** Records under suspicion during a bisection: no position may pass them. */
  #suspects: { readonly entry: QueueEntry; readonly error: ConnectorError }[] = []

  constructor(deps: BatchWriterDeps, settings: BatchWriterSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  async flush(batch: readonly QueueEntry[]): Promise<void> {
    let allFailed = false
    for (;;) {
      const entries = batch.filter(({ from }) => !from.tracker.isForgotten)
      if (entries.length === 0) return
      const rejected = await this.#write(entries, { allFailed, isSearching: false })
      if (rejected === undefined) return
      allFailed = !(await this.#isolate(rejected.entries, rejected.error))
      if (!allFailed) return
    }
  }

  /** Returns undefined when all records have an outcome, or the error that calls for a bisection and the records without an outcome. */
  async #write(all: readonly QueueEntry[], how: { allFailed: boolean; isSearching: boolean }): Promise<RejectedBatch | undefined> {
    const { clock, stopping } = this.#deps
    let entries = all
    for (let failures = 1; ; failures += 1) {
      const rejected = await this.#attempt(entries)
      if (rejected === undefined) return undefined
      const { error } = rejected
      // A durable prefix is progress: the count of failures starts again.
      if (rejected.entries.length < entries.length) failures = 1
      entries = rejected.entries
      this.#deps.onFailure(error, failures)
      if (this.#deps.canGiveUp(error)) return this.#giveUp(entries, error, failures)
      const reaction = chooseReaction(error, {
        failures: how.isSearching && error.class === 'unknown' ? Number.POSITIVE_INFINITY : failures,
        allFailed: how.allFailed || !this.#deps.canIsolate,
        retriesMax: how.isSearching ? 0 : this.#settings.retriesMax,
      })
      if (reaction.do === 'bisect') return { entries, error }
      if (reaction.do === 'end' && !this.#hasForgottenPartitions(entries)) throw new FlowTerminated(reaction.why, error)
      if (stopping.aborted) throw new BatchNotWritten('the process stops before the sink took the batch')
      if (entries.every(({ from }) => from.tracker.isForgotten)) return undefined
      await clock.sleep(retryDelayMs(this.#settings.retry, failures - 1, error.retryAfterMs), stopping).catch(() => {})
    }
  }

  /** Partitions were revoked during the write: the other records are written without them. */
  #hasForgottenPartitions(entries: readonly QueueEntry[]): boolean {
    return entries.some(({ from }) => from.tracker.isForgotten)
  }

  async #attempt(all: readonly QueueEntry[]): Promise<RejectedBatch | undefined> {
    await this.#deps.waitForDeadLetters()
    const entries = all.some(({ from }) => from.tracker.isForgotten) ? all.filter(({ from }) => !from.tracker.isForgotten) : all
    if (entries.length === 0) return undefined
    const { clock, sink } = this.#deps
    const startedMs = clock.monotonicMs()
    const limitMs = this.#flushLimitMs()
    this.#deps.onAttempt(entries)
    try {
      if (this.#needsConnect) this.#deps.onConnect(await withDeadline(clock, limitMs, () => sink.connect()))
      this.#needsConnect = false
      const records = entries.map(({ record }) => record)
      const positions = this.#suspects.length > 0 ? new Map() : this.#deps.toPositions(entries)
      await withDeadline(clock, limitMs, (signal) => sink.write(records, positions, signal))
    } catch (thrown) {
      const error = toConnectorError(thrown)
      this.#needsConnect = error.class === 'transient' || error.class === 'config'
      return this.#keepDurable(entries, error, clock.monotonicMs() - startedMs)
    }
    this.#deps.onWritten(entries, clock.monotonicMs() - startedMs)
    return undefined
  }

  /** Of a flush: at least what the sink grants its server, and a shorter one after the processor began to stop. */
  #flushLimitMs(): number {
    if (this.#deps.stopping.aborted) return this.#settings.stoppingFlushMs
    const { writeTimeoutMs } = this.#deps.sink
    return writeTimeoutMs === undefined ? this.#settings.flushMs : Math.max(this.#settings.flushMs, writeTimeoutMs + answerMarginMs)
  }

  /** The leading records that the sink wrote before it failed have their outcome; the others are left. */
  #keepDurable(entries: readonly QueueEntry[], error: ConnectorError, tookMs: number): RejectedBatch {
    const durable = Math.min(Math.max(0, error.durableRecords), entries.length - 1)
    if (durable === 0) return { entries, error }
    this.#deps.onWritten(entries.slice(0, durable), tookMs)
    const { class: kind, type, retryAfterMs, recordIndex } = error
    const index = recordIndex === undefined ? undefined : recordIndex - durable
    return {
      entries: entries.slice(durable),
      error: new ConnectorError({ class: kind, type, retryAfterMs, recordIndex: index }, error.message, { cause: error }),
    }
  }

  async #giveUp(entries: readonly QueueEntry[], error: ConnectorError, attempts: number): Promise<undefined> {
    for (const entry of entries) await this.#rejectRecord(entry, error, attempts)
    return undefined
  }

  /** False if every single record failed with an unknown error: then no record is at fault. */
  async #isolate(entries: readonly QueueEntry[], refusal: ConnectorError): Promise<boolean> {
    let writtenCount = 0
    const search = {
      write: async (part: readonly QueueEntry[]) => {
        const rejected = await this.#write(part, { allFailed: false, isSearching: true })
        writtenCount += part.length - (rejected?.entries.length ?? 0)
        return rejected
      },
      reject: async (entry: QueueEntry, error: ConnectorError) => {
        if (error.class === 'unknown') this.#suspects.push({ entry, error })
        else await this.#rejectRecord(entry, error, 1)
      },
    }
    await bisect(search, entries, refusal)
    const suspects = this.#suspects.splice(0)
    if (suspects.length === entries.length && writtenCount === 0) return false
    for (const { entry, error } of suspects) await this.#rejectRecord(entry, error, 1)
    return true
  }

  async #rejectRecord(entry: QueueEntry, error: ConnectorError, attempts: number): Promise<void> {
    let result = await this.#deps.reject(entry, error, attempts)
    for (let tries = attempts + 1; result === 'retry'; tries += 1) {
      const next = await this.#write([entry], { allFailed: false, isSearching: true })
      if (next === undefined) return this.#deps.onAccepted(entry)
      result = await this.#deps.reject(entry, next.error, tries)
    }
  }
}

/** Rejects after the limit, even if the connector ignores the signal. */
async function withDeadline<T>(clock: Clock, limitMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const over = new AbortController()
  const limit = Promise.withResolvers<never>()
  const timer = clock.setTimer(limitMs, () => {
    const error = createTimeoutError(limitMs)
    over.abort(error)
    limit.reject(error)
  })
  try {
    return await Promise.race([work(over.signal), limit.promise])
  } finally {
    timer.cancel()
  }
}

const createTimeoutError = (limitMs: number): ConnectorError =>
  new ConnectorError({ class: 'transient', type: 'timeout' }, `no answer within ${Math.round(limitMs / 1000)} s`)
