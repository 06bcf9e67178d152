// Keeps the desired state in sync with the broker: by stream, by long poll where an intermediary buffers streams, else by polling.
// Updates the sync state, stores the cursor and names the stacks to reconcile. No error or silence of the broker removes a stack.
import { ApiError } from '@brokkr/contract/errors.ts'
import { addJitter, backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import { SyncState } from '../desired-state/sync-state.ts'
import type { Session } from '../identity/sign-in.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { StreamRequest } from './frame-stream.ts'
import { applyPollResult, poll } from './poll.ts'
import { noFailures, planReconnect, type StreamEnd, type StreamFailures, type StreamResult } from './reconnect.ts'
import { callHandlers, RestartRequested, runStream, type SyncHandlers } from './run-stream.ts'
import { type Transport, type TransportKind, TransportSelector } from './transport-selector.ts'

export interface BrokerSyncDeps {
  readonly session: Session
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
}
export interface BrokerSyncOptions {
  readonly transport: Transport
  readonly pollMs: number
  readonly deadMs: number
  /** A stream without its first frame for this long is buffered by an intermediary. */
  readonly silentMs: number
  readonly longPollMs: number
  /** Interval after which a better transport is tried again. */
  readonly transportRetryMs: number
  /** Pause between attempts while the broker refuses the PAK. */
  readonly refusedRetryMs: number
  /** Interval between two snapshots, independent of the cursor. */
  readonly snapshotMs: number
  /** Exponential backoff with full jitter. */
  readonly reconnect: { baseMs: number; maxMs: number }
}
export interface BrokerSync {
  readonly state: SyncState
  readonly transport: TransportKind | 'none'
  start(handlers: SyncHandlers): void
  /** Cursor, count and digest of the desired state for the broker to compare; null without a stream or a cursor. */
  summary(): { cursor: string; count: number; digest: string } | null
  /** Requests a snapshot: the digests differ, removals were approved, or the interval has passed. */
  restart(reason?: string): void
  /** Ends the current pause, for example after a new PAK. */
  wake(): void
  stop(): Promise<void>
}

/** Up to this number, rejections can have another reason than an invalid PAK. */
const toleratedRefusals = 3

/** `state` may hold the desired state of an earlier run. */
export const createBrokerSync = (deps: BrokerSyncDeps, options: BrokerSyncOptions, state = new SyncState()): BrokerSync =>
  new SyncLoop(deps, options, state)

class SyncLoop implements BrokerSync {
  readonly state: SyncState
  readonly #deps: BrokerSyncDeps
  readonly #options: BrokerSyncOptions
  readonly #transports: TransportSelector
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #transport: BrokerSync['transport'] = 'none'
  #failures: StreamFailures = noFailures
  #etag: string | null = null
  /** Only the first of consecutive poll failures is logged. */
  #hasPollFailed = false
  #snapshotReason: string | null = null
  #stream: AbortController | null = null
  #pause = new AbortController()
  #snapshotTimer: { cancel(): void } | null = null

  constructor(deps: BrokerSyncDeps, options: BrokerSyncOptions, state: SyncState) {
    this.#deps = deps
    this.#options = options
    this.state = state
    this.#transports = new TransportSelector(deps.clock, options.transport, () => options.transportRetryMs)
  }

  start(handlers: SyncHandlers): void {
    this.#scheduleSnapshot()
    this.#running = this.#run(handlers)
  }

  get transport(): BrokerSync['transport'] {
    return this.#transport
  }

  summary(): { cursor: string; count: number; digest: string } | null {
    const { cursor, desired } = this.state
    return this.#transport === 'none' || this.#transport === 'poll' || cursor === null ? null : { cursor, ...desired.summary() }
  }

  restart(reason = 'digest'): void {
    if (this.#running === null) return
    this.#etag = null
    // Without a cursor a snapshot is already requested, and it may be the one that contains the approval.
    if (this.state.cursor === null && reason !== 'approved') return
    this.#snapshotReason = reason
    this.#stream?.abort(new RestartRequested('a snapshot is requested'))
  }

  wake(): void {
    this.#failures = noFailures
    this.#pause.abort()
  }

  async stop(): Promise<void> {
    this.#snapshotTimer?.cancel()
    this.#stopping.abort(new Error('the agent is stopping'))
    await this.#running
  }

  async #run(handlers: SyncHandlers): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const kind = this.#transports.next
      const pauseMs = kind === 'poll' ? await this.#poll(handlers) : await this.#runStream(kind, handlers)
      this.#pause = new AbortController()
      await this.#deps.clock.sleep(pauseMs, AbortSignal.any([signal, this.#pause.signal])).catch(() => undefined)
    }
    this.#setTransport('none')
  }

  /** Uses a timer, so that a snapshot is requested also while the stream works. */
  #scheduleSnapshot(): void {
    this.#snapshotTimer = this.#deps.clock.setTimer(addJitter(this.#options.snapshotMs, 0.1), () => {
      this.restart('daily')
      this.#scheduleSnapshot()
    })
  }

  /** Returns the pause before the next stream or poll. */
  async #runStream(kind: Exclude<TransportKind, 'poll'>, handlers: SyncHandlers): Promise<number> {
    const { clock, metrics } = this.#deps
    const cursorBefore = this.state.cursor
    const startedMs = clock.monotonicMs()
    const end = await this.#readStream(kind, handlers)
    if (this.#stopping.signal.aborted) return 0
    if (end.how !== 'polled') this.#setTransport('none')
    metrics.streamEnds.inc({ how: end.how })
    const plan = planReconnect(this.#failures, toStreamResult(end, clock.monotonicMs() - startedMs, cursorBefore, this.state.cursor))
    this.#failures = plan.failures
    if (plan.cursor === 'drop') this.state.cursor = null
    if (end.how === 'refused' && end.code === 'bad_cursor') this.state.lastCursor = null
    if (this.#switchTransport(kind, plan.transport)) return 0
    return Math.max(plan.atLeastMs, this.#backoffMs(plan.backoffAttempt), this.#refusedMs(end))
  }

  /** Returns true if the next attempt uses another transport, without a pause. */
  #switchTransport(kind: TransportKind, planned: TransportKind): boolean {
    // A failed trial of a better transport returns to the working one.
    const isTrial = kind !== this.#transports.usual
    if (!isTrial && (planned === 'stream' || planned === kind)) return false
    const hasChanged = this.#transports.failed(kind, isTrial ? this.#transports.usual : planned)
    if (hasChanged) this.#deps.log.warn('transport switched', { way: planned, instead_of: kind, retry_ms: this.#options.transportRetryMs })
    if (hasChanged || isTrial) this.#failures = noFailures
    return hasChanged || isTrial
  }

  async #readStream(kind: Exclude<TransportKind, 'poll'>, handlers: SyncHandlers): Promise<StreamEnd> {
    const { clock, log, metrics, session } = this.#deps
    const { deadMs, silentMs, longPollMs } = this.#options
    this.#stream = new AbortController()
    const signal = AbortSignal.any([this.#stopping.signal, this.#stream.signal])
    const onOpen = () => {
      this.#transports.worked(kind)
      this.#setTransport(kind)
    }
    const deps = { broker: session.broker, clock, log, metrics, handlers, onOpen }
    // An intermediary that buffers streams passes a long poll on when it is complete.
    const times = kind === 'stream' ? { firstMs: silentMs, deadMs } : { firstMs: longPollMs + silentMs, deadMs: longPollMs + silentMs }
    return runStream(deps, this.state, this.#toRequest(kind), { ...times, signal })
  }

  /** Count and digest let the broker resume without a snapshot; they are omitted if a snapshot is requested. */
  #toRequest(kind: TransportKind): StreamRequest {
    const { cursor, lastCursor, desired } = this.state
    const { agentId } = this.#deps.session
    const reason = this.#snapshotReason
    this.#snapshotReason = null
    if (reason === 'digest') this.state.hasDigestMismatch = true
    const wait = kind === 'longpoll' ? { wait: `${this.#options.longPollMs / 1000}s` } : {}
    if (cursor !== null) return { agentId, cursor, ...desired.summary(), ...wait }
    return { agentId, ...(lastCursor === null ? {} : { seen: lastCursor }), ...(reason === null ? {} : { reason }), ...wait }
  }

  #backoffMs(attempt: number | null): number {
    return attempt === null ? 0 : backoffDelayMs({ ...this.#options.reconnect, jitter: 'full' }, attempt)
  }

  #refusedMs(end: StreamEnd): number {
    const isRefused = end.how === 'refused' && [401, 403, 426].includes(end.status)
    return isRefused && this.#failures.failures > toleratedRefusals ? this.#options.refusedRetryMs : 0
  }

  /** Returns the pause before the next poll. */
  async #poll(handlers: SyncHandlers): Promise<number> {
    const { clock, log, metrics, session } = this.#deps
    const startedMs = clock.monotonicMs()
    try {
      const request = { agentId: session.agentId, etag: this.#etag, lastCursor: this.state.lastCursor }
      const result = await poll({ client: session.broker.client }, request, this.#stopping.signal)
      this.#setTransport('poll')
      this.#hasPollFailed = false
      metrics.lastPoll.set(clock.now() / 1000)
      metrics.polls.inc({ status: result.is === 'unchanged' ? 'unchanged' : result.isComplete ? 'complete' : 'incomplete' })
      if (result.is === 'list') {
        this.#etag = result.isComplete ? result.etag : null
        for (const effect of applyPollResult(this.state, result)) callHandlers(handlers, effect)
        handlers.onChanged()
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return 0
      if (error instanceof ApiError && error.code === 'bad_cursor') this.state.lastCursor = null
      metrics.polls.inc({ status: 'failed' })
      if (!this.#hasPollFailed) log.warn('poll failed', { error: toError(error) })
      this.#hasPollFailed = true
    }
    metrics.pollSeconds.observe((clock.monotonicMs() - startedMs) / 1000)
    return Math.min(this.#options.pollMs, this.#transports.untilTrialMs)
  }

  #setTransport(transport: BrokerSync['transport']): void {
    this.#transport = transport
    for (const each of ['stream', 'longpoll', 'poll', 'none'] as const)
      this.#deps.metrics.session.set({ transport: each }, each === transport ? 1 : 0)
  }
}

const toStreamResult = (end: StreamEnd, lastedMs: number, cursorBefore: string | null, cursor: string | null): StreamResult => ({
  end,
  lastedMs,
  hadCursor: cursorBefore !== null,
  hasMoved: cursorBefore !== cursor,
})
