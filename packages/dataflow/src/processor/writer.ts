// One batch at a sink until everything in it has ended: the same batch again while the trouble may pass, bisected when a record is at
// fault, the guilty ones handed on. The sink is asked by one writer alone, so order holds through all of it.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { bisect } from './bisect.ts'
import { connectorErrorOf, reactTo } from './classify.ts'
import { ConnectorError, type Positions, type Sink } from './connectors/connector.ts'
import type { Item } from './open-message.ts'
import { type RetryPolicy, retryDelayMs } from './retry.ts'

export interface WriterSettings {
  readonly retry: RetryPolicy
  /** PROCESSOR_SINK_ERROR_MAX_RETRIES. */
  readonly retriesMax: number
  /** One flush, and one flush once the process stops. */
  readonly flushMs: number
  readonly stoppingFlushMs: number
}

/** settled: it has ended, or its ending is on its way · again: try the record once more. */
export type Verdict = 'settled' | 'again'

export interface WriterDeps {
  readonly sink: Pick<Sink, 'connect' | 'write'>
  readonly clock: Clock
  /** Aborted when the process stops: waits end at once, nothing is tried again. */
  readonly stopping: AbortSignal
  positionsOf(items: readonly Item[]): Positions
  /** Before every write: what must be durable first. */
  settle(): Promise<void>
  attempt(items: readonly Item[]): void
  written(items: readonly Item[], tookMs: number): void
  failed(error: ConnectorError, failures: number): void
  /** Whether a batch that cannot be written now is to be given up; then each item is handed to `guilty`. */
  givesUp(error: ConnectorError): boolean
  /** Errors sinks isolate nothing: their letters are tried for ever. */
  readonly isolates: boolean
  guilty(item: Item, error: ConnectorError, attempts: number): Promise<Verdict>
  /** It was tried again and is no longer guilty, or no longer ours. */
  released(item: Item): void
}

/** The process stops and this batch stays unwritten. */
export class Unwritten extends Error {
  override name = 'Unwritten'
}

/** The process must end: fenced by another, or out of tries. */
export class FlowEnded extends Error {
  override name = 'FlowEnded'
  readonly why: 'fenced' | 'retries'
  constructor(why: 'fenced' | 'retries', cause: ConnectorError) {
    super(cause.message, { cause })
    this.why = why
  }
}

export class Writer {
  readonly #deps: WriterDeps
  readonly #settings: WriterSettings
  #needsConnect = false
  /** Records set aside while it is open whether they are at fault: no position may pass them. */
  #held: { readonly item: Item; readonly error: ConnectorError }[] = []

  constructor(deps: WriterDeps, settings: WriterSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  async flush(batch: readonly Item[]): Promise<void> {
    let allFailed = false
    for (;;) {
      const items = batch.filter(({ from }) => !from.tracker.isForgotten)
      if (items.length === 0) return
      const refusal = await this.#write(items, { allFailed, isSearching: false })
      if (refusal === undefined) return
      allFailed = !(await this.#isolate(items, refusal))
      if (!allFailed) return
    }
  }

  /** Undefined when the items ended; an error when single records must be looked at. */
  async #write(items: readonly Item[], how: { allFailed: boolean; isSearching: boolean }): Promise<ConnectorError | undefined> {
    const { clock, stopping } = this.#deps
    for (let failures = 1; ; failures += 1) {
      const error = await this.#once(items)
      if (error === undefined) return undefined
      this.#deps.failed(error, failures)
      if (this.#deps.givesUp(error)) return this.#giveUp(items, error, failures)
      const reaction = reactTo(error, {
        failures: how.isSearching && error.class === 'unknown' ? Number.POSITIVE_INFINITY : failures,
        allFailed: how.allFailed || !this.#deps.isolates,
        retriesMax: how.isSearching ? 0 : this.#settings.retriesMax,
      })
      if (reaction.do === 'bisect') return error
      if (reaction.do === 'end' && !this.#lostPartitions(items)) throw new FlowEnded(reaction.why, error)
      if (stopping.aborted) throw new Unwritten('the process stops before the sink took the batch')
      if (items.every(({ from }) => from.tracker.isForgotten)) return undefined
      await clock.sleep(retryDelayMs(this.#settings.retry, failures - 1, error.retryAfterMs), stopping).catch(() => {})
    }
  }

  /** A write with partitions that were taken from us in the middle of it: the rest is written without them. */
  #lostPartitions(items: readonly Item[]): boolean {
    return items.some(({ from }) => from.tracker.isForgotten)
  }

  async #once(all: readonly Item[]): Promise<ConnectorError | undefined> {
    await this.#deps.settle()
    const items = all.some(({ from }) => from.tracker.isForgotten) ? all.filter(({ from }) => !from.tracker.isForgotten) : all
    if (items.length === 0) return undefined
    const { clock, sink, stopping } = this.#deps
    const startedMs = clock.monotonicMs()
    const limitMs = stopping.aborted ? this.#settings.stoppingFlushMs : this.#settings.flushMs
    this.#deps.attempt(items)
    try {
      if (this.#needsConnect) await within(clock, limitMs, () => sink.connect())
      this.#needsConnect = false
      const records = items.map(({ record }) => record)
      const positions = this.#held.length > 0 ? new Map() : this.#deps.positionsOf(items)
      await within(clock, limitMs, (signal) => sink.write(records, positions, signal))
    } catch (thrown) {
      const error = connectorErrorOf(thrown)
      this.#needsConnect = error.class === 'transient' || error.class === 'config'
      return error
    }
    this.#deps.written(items, clock.monotonicMs() - startedMs)
    return undefined
  }

  async #giveUp(items: readonly Item[], error: ConnectorError, attempts: number): Promise<undefined> {
    for (const item of items) await this.#judge(item, error, attempts)
    return undefined
  }

  /** False when every single record failed with an error nobody knows: then no record is at fault. */
  async #isolate(items: readonly Item[], refusal: ConnectorError): Promise<boolean> {
    let written = 0
    const search = {
      write: async (part: readonly Item[]) => {
        const error = await this.#write(part, { allFailed: false, isSearching: true })
        if (error === undefined) written += part.length
        return error
      },
      guilty: async (item: Item, error: ConnectorError) => {
        if (error.class === 'unknown') this.#held.push({ item, error })
        else await this.#judge(item, error, 1)
      },
    }
    await bisect(search, items, refusal)
    const held = this.#held.splice(0)
    if (held.length === items.length && written === 0) return false
    for (const { item, error } of held) await this.#judge(item, error, 1)
    return true
  }

  async #judge(item: Item, error: ConnectorError, attempts: number): Promise<void> {
    let verdict = await this.#deps.guilty(item, error, attempts)
    for (let tries = attempts + 1; verdict === 'again'; tries += 1) {
      const next = await this.#write([item], { allFailed: false, isSearching: true })
      if (next === undefined) return this.#deps.released(item)
      verdict = await this.#deps.guilty(item, next, tries)
    }
  }
}

/** A flush has its own deadline; a connector that does not heed it is left behind. */
async function within<T>(clock: Clock, limitMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const over = new AbortController()
  const limit = Promise.withResolvers<never>()
  const timer = clock.setTimer(limitMs, () => {
    const error = timeout(limitMs)
    over.abort(error)
    limit.reject(error)
  })
  try {
    return await Promise.race([work(over.signal), limit.promise])
  } finally {
    timer.cancel()
  }
}

const timeout = (limitMs: number): ConnectorError =>
  new ConnectorError({ class: 'transient', type: 'timeout' }, `no answer within ${Math.round(limitMs / 1000)} s`)
