// One stream from its beginning to its end: frames into the map, content fetched beside it, handlers told. Gives how it ended;
// never throws.
import type { Frame } from '@brokkr/contract/stream.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { createLimiter, type Limiter } from '@brokkr/runtime/concurrency.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { BrokerHttp } from '../broker-http.ts'
import type { AgentMetrics } from '../metrics.ts'
import { Connection } from './connection.ts'
import { fetchContent } from './content.ts'
import { BrokenFrame, type ContentWanted, type Effect } from './effect.ts'
import type { StreamEnd } from './next-try.ts'
import type { Verified } from './snapshot.ts'
import { readStream, StreamMute, StreamRefused, type StreamRequest, StreamSilent, type StreamTimes } from './stream.ts'
import type { WantedMap } from './wanted-map.ts'

export interface FollowHandlers {
  /** The level of this stack may have changed. */
  onLook(stackId: StackId): void
  /** A complete list came: what it does not mention may be removed, if the guard agrees. */
  onVerified(list: Verified): void
  /** A stream began; reports are numbered within its session. */
  onSession(session: number, isNewEpoch: boolean): void
  /** Work orders, diagnostics, webhooks or our own record: read them after a uniform 0..spreadMs. */
  onAsk(what: string, spreadMs: number): void
  /** What is followed has changed, and may be saved. */
  onChanged(): void
}
export interface StreamDeps {
  readonly broker: BrokerHttp
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly handlers: FollowHandlers
  /** The first frame came, so this way works. */
  readonly onOpen: () => void
}
/** Ends a stream by abort: somebody wants a complete list instead. */
export class RestartAsked extends Error {}
class UnverifiedList extends Error {}

const fetchesMax = 4
const changing: ReadonlySet<Frame['type']> = new Set(['put', 'skip', 'del', 'snapshot_end', 'bookmark', 'bye'])

export async function followStream(deps: StreamDeps, map: WantedMap, request: StreamRequest, options: StreamTimes): Promise<StreamEnd> {
  const scope = new AbortController()
  const hasShown = request.cursor !== undefined || request.seen !== undefined
  const turn = new StreamTurn(deps, new Connection(map, hasShown), scope, AbortSignal.any([options.signal, scope.signal]))
  try {
    return await turn.read(request, options)
  } catch (error) {
    const end = endOf(error)
    if (!options.signal.aborted) deps.log.info('stream ended', { how: end.how, why: errorText(error) })
    return end
  } finally {
    // Content that is still being fetched belongs to this stream: the next one names it again.
    scope.abort(new Error('the stream has ended'))
  }
}

class StreamTurn {
  readonly #deps: StreamDeps
  readonly #connection: Connection
  readonly #scope: AbortController
  readonly #signal: AbortSignal
  readonly #fetches: Limiter = createLimiter(fetchesMax)
  readonly #fetching = new Set<Promise<void>>()

  constructor(deps: StreamDeps, connection: Connection, scope: AbortController, signal: AbortSignal) {
    this.#deps = deps
    this.#connection = connection
    this.#scope = scope
    this.#signal = signal
  }

  async read(request: StreamRequest, times: StreamTimes): Promise<StreamEnd> {
    const { clock, metrics, handlers } = this.#deps
    let last: Frame['type'] | null = null
    for await (const frame of readStream(this.#deps, request, { ...times, signal: this.#signal })) {
      metrics.lastFrame.set(clock.now() / 1000)
      if (frame === null) metrics.framesIgnored.inc({ reason: 'unknown' })
      else last = frame.type
      const end = frame && this.#carryOut(this.#connection.take(frame))
      if (frame !== null && changing.has(frame.type)) handlers.onChanged()
      if (end) return end
    }
    // The last line of a long poll is always a bookmark; without it the answer was cut.
    return request.wait !== undefined && last === 'bookmark' ? this.#settled() : { how: 'lost' }
  }

  /** Content of a long poll may still be on its way; the next one would only ask for it again. */
  async #settled(): Promise<StreamEnd> {
    while (this.#fetching.size > 0) await Promise.race(this.#fetching)
    return { how: 'polled' }
  }

  #carryOut(effects: readonly Effect[]): StreamEnd | null {
    return effects.map((effect) => this.#carryOutOne(effect)).find((end) => end !== null) ?? null
  }

  #carryOutOne(effect: Effect): StreamEnd | null {
    const { handlers, log, metrics } = this.#deps
    switch (effect.do) {
      case 'fetch':
        this.#begin(effect.content)
        return null
      case 'ask':
        handlers.onAsk(effect.what, effect.spreadMs)
        return null
      case 'session':
        this.#deps.onOpen()
        handlers.onSession(effect.session, effect.isNewEpoch)
        return null
      case 'ignored':
        metrics.framesIgnored.inc({ reason: effect.reason })
        return null
      case 'unverified':
        log.warn('a list of stacks does not agree with its count and digest; nothing is removed by it')
        return { how: 'unverified' }
      case 'bye':
        log.info('the broker ended the stream', { reason: effect.reason, retry_after_ms: effect.retryAfterMs })
        return { how: 'bye', retryAfterMs: effect.retryAfterMs }
      case 'look':
      case 'verified':
        tell(handlers, effect)
        return null
      default:
        return effect satisfies never
    }
  }

  #begin(content: ContentWanted): void {
    const fetching = this.#fetch(content).finally(() => this.#fetching.delete(fetching))
    this.#fetching.add(fetching)
  }

  async #fetch(content: ContentWanted): Promise<void> {
    const { log } = this.#deps
    try {
      const text = await this.#fetches.run(() => fetchContent(this.#deps, content, this.#signal))
      this.#signal.throwIfAborted()
      const end = this.#carryOut(this.#connection.content(content.objectId, text))
      this.#deps.handlers.onChanged()
      if (end) this.#scope.abort(new UnverifiedList('the list did not agree once its content was here'))
    } catch (error) {
      if (!this.#signal.aborted) log.error('content lost', { object_id: content.objectId, error: toError(error) })
    }
  }
}

export function tell(handlers: FollowHandlers, effect: Extract<Effect, { do: 'look' | 'verified' }>): void {
  if (effect.do === 'look') handlers.onLook(effect.stackId)
  else handlers.onVerified(effect.list)
}

function endOf(error: unknown): StreamEnd {
  if (error instanceof RestartAsked) return { how: 'asked' }
  if (error instanceof UnverifiedList) return { how: 'unverified' }
  if (error instanceof StreamSilent) return { how: 'silent' }
  if (error instanceof StreamMute) return { how: 'mute' }
  if (error instanceof BrokenFrame) return { how: 'broken' }
  if (error instanceof StreamRefused) return { how: 'refused', status: error.status, code: error.code, retryAfterMs: error.retryAfterMs }
  return { how: 'lost' }
}
