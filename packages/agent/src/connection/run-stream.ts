// Runs one stream from start to end: applies frames, fetches content and calls the handlers. Returns how it ended; never throws.
import type { Frame } from '@brokkr/contract/feed/stream.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { createLimiter, type Limiter } from '@brokkr/runtime/concurrency.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { VerifiedSnapshot } from '../desired-state/snapshot.ts'
import type { SyncState } from '../desired-state/sync-state.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { BrokerHttp } from './broker-http.ts'
import { BrokenFrame, type ContentRequest, type Effect } from './effect.ts'
import { fetchContent } from './fetch-content.ts'
import { FrameProcessor } from './frame-processor.ts'
import { FirstFrameTimeout, readFrames, StreamRefused, type StreamRequest, StreamTimeout, type StreamTimes } from './frame-stream.ts'
import type { StreamEnd } from './reconnect.ts'

export interface SyncHandlers {
  /** The desired action of this stack may have changed. */
  onReconcile(stackId: StackId): void
  /** A snapshot is verified: stacks that it does not list may be removed if the prune guard allows it. */
  onVerified(snapshot: VerifiedSnapshot): void
  /** A stream began; reports are numbered within its session. `isStateReplaced`: a snapshot replaces the desired state. */
  onSession(session: number, isStateReplaced: boolean): void
  /** Read work orders, diagnostics, webhooks or the agent's record after a random delay of 0..spreadMs. */
  onRefresh(what: string, spreadMs: number): void
  /** The sync state changed and may be saved. */
  onChanged(): void
}
export interface StreamDeps {
  readonly broker: BrokerHttp
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly handlers: SyncHandlers
  /** The first frame arrived, so the transport works. */
  readonly onOpen: () => void
}
/** Abort reason: a snapshot is requested instead. */
export class RestartRequested extends Error {}
class SnapshotMismatch extends Error {}

const fetchesMax = 4
const changingFrames: ReadonlySet<Frame['type']> = new Set(['put', 'skip', 'del', 'snapshot_end', 'bookmark', 'bye'])

export async function runStream(deps: StreamDeps, state: SyncState, request: StreamRequest, options: StreamTimes): Promise<StreamEnd> {
  const scope = new AbortController()
  const requestHadCursor = request.cursor !== undefined || request.seen !== undefined
  const run = new StreamRun(deps, new FrameProcessor(state, requestHadCursor), scope, AbortSignal.any([options.signal, scope.signal]))
  try {
    return await run.read(request, options)
  } catch (error) {
    const end = toStreamEnd(error)
    if (!options.signal.aborted) deps.log.info('stream ended', { how: end.how, why: errorText(error) })
    return end
  } finally {
    // Aborts content fetches of this stream: the next stream names the content again.
    scope.abort(new Error('the stream has ended'))
  }
}

class StreamRun {
  readonly #deps: StreamDeps
  readonly #processor: FrameProcessor
  readonly #scope: AbortController
  readonly #signal: AbortSignal
  readonly #fetches: Limiter = createLimiter(fetchesMax)
  readonly #fetching = new Set<Promise<void>>()

  constructor(deps: StreamDeps, processor: FrameProcessor, scope: AbortController, signal: AbortSignal) {
    this.#deps = deps
    this.#processor = processor
    this.#scope = scope
    this.#signal = signal
  }

  async read(request: StreamRequest, times: StreamTimes): Promise<StreamEnd> {
    const { clock, metrics, handlers } = this.#deps
    let last: Frame['type'] | null = null
    for await (const frame of readFrames(this.#deps, request, { ...times, signal: this.#signal })) {
      metrics.lastFrame.set(clock.now() / 1000)
      if (frame === null) metrics.framesIgnored.inc({ reason: 'unknown' })
      else last = frame.type
      const end = frame && this.#execute(this.#processor.process(frame))
      if (frame !== null && changingFrames.has(frame.type)) handlers.onChanged()
      if (end) return end
    }
    // A complete long poll ends with a bookmark; without it the response was cut.
    return request.wait !== undefined && last === 'bookmark' ? this.#waitForContent() : { how: 'lost' }
  }

  /** Waits for content in flight, which the next long poll would request again. */
  async #waitForContent(): Promise<StreamEnd> {
    while (this.#fetching.size > 0) await Promise.race(this.#fetching)
    return { how: 'polled' }
  }

  #execute(effects: readonly Effect[]): StreamEnd | null {
    return effects.map((effect) => this.#executeOne(effect)).find((end) => end !== null) ?? null
  }

  #executeOne(effect: Effect): StreamEnd | null {
    const { handlers, log, metrics } = this.#deps
    switch (effect.do) {
      case 'fetch':
        this.#startFetch(effect.content)
        return null
      case 'refresh':
        handlers.onRefresh(effect.what, effect.spreadMs)
        return null
      case 'session':
        this.#deps.onOpen()
        handlers.onSession(effect.session, effect.isStateReplaced)
        return null
      case 'ignored':
        metrics.framesIgnored.inc({ reason: effect.reason })
        return null
      case 'unverified':
        log.warn('snapshot rejected: count or digest mismatch')
        return { how: 'unverified' }
      case 'bye':
        log.info('stream ended by the broker', { reason: effect.reason, retry_after_ms: effect.retryAfterMs })
        return { how: 'bye', retryAfterMs: effect.retryAfterMs }
      case 'reconcile':
      case 'verified':
        callHandlers(handlers, effect)
        return null
      default:
        return effect satisfies never
    }
  }

  #startFetch(content: ContentRequest): void {
    const fetching = this.#fetch(content).finally(() => this.#fetching.delete(fetching))
    this.#fetching.add(fetching)
  }

  async #fetch(content: ContentRequest): Promise<void> {
    const { log } = this.#deps
    try {
      const text = await this.#fetches.run(() => fetchContent(this.#deps, content, this.#signal))
      this.#signal.throwIfAborted()
      const end = this.#execute(this.#processor.addContent(content.objectId, text))
      this.#deps.handlers.onChanged()
      if (end) this.#scope.abort(new SnapshotMismatch('snapshot digest mismatch'))
    } catch (error) {
      if (!this.#signal.aborted) log.error('manifest fetch failed', { object_id: content.objectId, error: toError(error) })
    }
  }
}

export function callHandlers(handlers: SyncHandlers, effect: Extract<Effect, { do: 'reconcile' | 'verified' }>): void {
  if (effect.do === 'reconcile') handlers.onReconcile(effect.stackId)
  else handlers.onVerified(effect.snapshot)
}

function toStreamEnd(error: unknown): StreamEnd {
  if (error instanceof RestartRequested) return { how: 'asked' }
  if (error instanceof SnapshotMismatch) return { how: 'unverified' }
  if (error instanceof StreamTimeout) return { how: 'silent' }
  if (error instanceof FirstFrameTimeout) return { how: 'mute' }
  if (error instanceof BrokenFrame) return { how: 'broken' }
  if (error instanceof StreamRefused) return { how: 'refused', status: error.status, code: error.code, retryAfterMs: error.retryAfterMs }
  return { how: 'lost' }
}
