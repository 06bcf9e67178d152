// Follows the broker: by stream, or by polling where there is no stream. Fills the map, keeps the cursor, says who must look.
// No answer, error or silence of the broker takes anything out of the map.
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type FollowHandlers, followStream, RestartAsked, tell } from './follow/follow-stream.ts'
import { type Ended, freshStanding, nextTry, type Standing, type StreamEnd } from './follow/next-try.ts'
import { poll, takePolled } from './follow/poll.ts'
import type { StreamRequest } from './follow/stream.ts'
import { WantedMap } from './follow/wanted-map.ts'
import type { AgentMetrics } from './metrics.ts'
import type { Session } from './session.ts'

export interface FollowDeps {
  readonly session: Session
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
}
export interface FollowOptions {
  readonly transport: 'auto' | 'stream' | 'poll'
  readonly pollMs: number
  readonly deadMs: number
  /** How often a better way is tried again while polling. */
  readonly transportRetryMs: number
  readonly reconnect?: { baseMs: number; maxMs: number }
}
export interface Follow {
  readonly map: WantedMap
  readonly transport: 'stream' | 'poll' | 'none'
  /** What we hold and up to where, for the broker to compare; null while no stream tells us so. */
  summary(): { cursor: string; count: number; digest: string } | null
  /** The broker holds something else than we do: ask for a complete list. */
  restart(): void
  stop(): Promise<void>
}

const reconnect = { baseMs: 500, maxMs: 30_000 }

export const startFollow = (deps: FollowDeps, options: FollowOptions, handlers: FollowHandlers): Follow =>
  new Following(deps, options, handlers)

class Following implements Follow {
  readonly map = new WantedMap()
  readonly #deps: FollowDeps
  readonly #options: FollowOptions
  readonly #handlers: FollowHandlers
  readonly #stopping = new AbortController()
  readonly #running: Promise<void>
  #transport: Follow['transport'] = 'none'
  #standing: Standing = freshStanding
  #etag: string | null = null
  #reason: string | null = null
  #stream: AbortController | null = null
  /** By the monotonic clock; until then we poll. */
  #streamFromMs: number

  constructor(deps: FollowDeps, options: FollowOptions, handlers: FollowHandlers) {
    this.#deps = deps
    this.#options = options
    this.#handlers = handlers
    this.#streamFromMs = options.transport === 'poll' ? Number.POSITIVE_INFINITY : 0
    this.#running = this.#run()
  }

  get transport(): Follow['transport'] {
    return this.#transport
  }

  summary(): { cursor: string; count: number; digest: string } | null {
    const { cursor, levels } = this.map
    return this.#transport !== 'stream' || cursor === null ? null : { cursor, ...levels.summary() }
  }

  restart(): void {
    this.#reason = 'digest'
    this.#stream?.abort(new RestartAsked('a complete list is asked for'))
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the agent stops'))
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock } = this.#deps
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const pauseMs = clock.monotonicMs() >= this.#streamFromMs ? await this.#streamTurn() : await this.#pollTurn()
      await clock.sleep(pauseMs, signal).catch(() => undefined)
    }
    this.#setTransport('none')
  }

  /** Gives the pause before the next turn. */
  async #streamTurn(): Promise<number> {
    const { clock, log, metrics } = this.#deps
    const before = this.map.cursor
    const startedMs = clock.monotonicMs()
    const end = await this.#follow()
    if (this.#stopping.signal.aborted) return 0
    this.#setTransport('none')
    metrics.streamEnds.inc({ how: end.how })
    const next = nextTry(this.#standing, endedAs(end, clock.monotonicMs() - startedMs, before, this.map.cursor))
    this.#standing = next.standing
    if (next.cursor === 'drop') this.map.cursor = null
    if (next.transport === 'poll' && this.#options.transport === 'auto') {
      log.warn('the broker serves no stream; polling instead', { retry_ms: this.#options.transportRetryMs })
      this.#streamFromMs = clock.monotonicMs() + this.#options.transportRetryMs
      this.#standing = freshStanding
      return 0
    }
    return Math.max(next.atLeastMs, this.#backoffMs(next.backoffAttempt))
  }

  async #follow(): Promise<StreamEnd> {
    const { clock, log, metrics, session } = this.#deps
    this.#stream = new AbortController()
    const signal = AbortSignal.any([this.#stopping.signal, this.#stream.signal])
    const deps = { broker: session.broker, clock, log, metrics, handlers: this.#handlers, onOpen: () => this.#setTransport('stream') }
    return followStream(deps, this.map, this.#request(), { deadMs: this.#options.deadMs, signal })
  }

  /** Count and digest spare the broker a list of what we have, unless it is the list itself that we want. */
  #request(): StreamRequest {
    const { cursor, levels } = this.map
    const { agentId } = this.#deps.session
    const reason = this.#reason
    this.#reason = null
    if (cursor !== null) return { agentId, cursor, ...levels.summary() }
    return reason === null ? { agentId } : { agentId, reason }
  }

  #backoffMs(attempt: number | null): number {
    return attempt === null ? 0 : backoffDelayMs({ ...(this.#options.reconnect ?? reconnect), jitter: 'full' }, attempt)
  }

  async #pollTurn(): Promise<number> {
    const { clock, log, metrics, session } = this.#deps
    const startedMs = clock.monotonicMs()
    try {
      const polled = await poll({ client: session.broker.client }, session.agentId, this.#etag, this.#stopping.signal)
      this.#setTransport('poll')
      metrics.lastPoll.set(clock.now() / 1000)
      metrics.polls.inc({ status: polled.is === 'unchanged' ? 'unchanged' : polled.isComplete ? 'complete' : 'incomplete' })
      if (polled.is === 'list') {
        this.#etag = polled.isComplete ? polled.etag : null
        for (const effect of takePolled(this.map, polled)) tell(this.#handlers, effect)
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return 0
      metrics.polls.inc({ status: 'failed' })
      log.warn('poll failed', { error: toError(error) })
    }
    metrics.pollSeconds.observe((clock.monotonicMs() - startedMs) / 1000)
    return Math.min(this.#options.pollMs, Math.max(0, this.#streamFromMs - clock.monotonicMs()))
  }

  #setTransport(transport: Follow['transport']): void {
    this.#transport = transport
    for (const each of ['stream', 'poll', 'none'] as const) this.#deps.metrics.session.set({ transport: each }, each === transport ? 1 : 0)
  }
}

const endedAs = (end: StreamEnd, lastedMs: number, before: string | null, after: string | null): Ended => ({
  end,
  lastedMs,
  hadCursor: before !== null,
  hasMoved: before !== after,
})
