// Follows the broker: by stream, by long poll where streams are held back, by polling where there is neither. Fills the map,
// keeps the cursor, says who must look. No answer, error or silence of the broker takes anything out of the map.
import { ApiError } from '@brokkr/contract/error.ts'
import { backoffDelayMs, jittered } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type FollowHandlers, followStream, RestartAsked, tell } from './follow/follow-stream.ts'
import { type Ended, freshStanding, nextTry, type Standing, type StreamEnd } from './follow/next-try.ts'
import { poll, takePolled } from './follow/poll.ts'
import type { StreamRequest } from './follow/stream.ts'
import { WantedMap } from './follow/wanted-map.ts'
import { type Transport, type Way, Ways } from './follow/ways.ts'
import type { AgentMetrics } from './metrics.ts'
import type { Session } from './session.ts'

export interface FollowDeps {
  readonly session: Session
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
}
export interface FollowOptions {
  readonly transport: Transport
  readonly pollMs: number
  readonly deadMs: number
  /** A stream that shows no frame for so long is held back on its way. */
  readonly silentMs: number
  readonly longPollMs: number
  /** How often a better way is tried again. */
  readonly transportRetryMs: number
  /** Between two tries while the broker refuses our key. */
  readonly refusedRetryMs: number
  /** Between two complete lists, whatever the cursor says. */
  readonly snapshotMs: number
  /** Full jitter, doubling. */
  readonly reconnect: { baseMs: number; maxMs: number }
}
export interface Follow {
  readonly map: WantedMap
  readonly transport: Way | 'none'
  /** What we hold and up to where, for the broker to compare; null while no stream tells us so. */
  summary(): { cursor: string; count: number; digest: string } | null
  /** Ask for a complete list: what we hold is not what the broker holds, or it is time to compare. */
  restart(reason?: string): void
  /** Something has changed, such as the key: do not wait any longer. */
  wake(): void
  stop(): Promise<void>
}

/** So many refusals may have another reason than a dead key. */
const patientRefusals = 3

/** `map` may hold what was known before the start. */
export const startFollow = (deps: FollowDeps, options: FollowOptions, handlers: FollowHandlers, map = new WantedMap()): Follow =>
  new Following(deps, options, handlers, map)

class Following implements Follow {
  readonly map: WantedMap
  readonly #deps: FollowDeps
  readonly #options: FollowOptions
  readonly #handlers: FollowHandlers
  readonly #ways: Ways
  readonly #stopping = new AbortController()
  readonly #running: Promise<void>
  #transport: Follow['transport'] = 'none'
  #standing: Standing = freshStanding
  #etag: string | null = null
  /** A broker that is away for a day is worth one line. */
  #hasFailed = false
  #reason: string | null = null
  #stream: AbortController | null = null
  #nap = new AbortController()
  #daily: { cancel(): void } | null = null

  constructor(deps: FollowDeps, options: FollowOptions, handlers: FollowHandlers, map: WantedMap) {
    this.#deps = deps
    this.#options = options
    this.#handlers = handlers
    this.map = map
    this.#ways = new Ways(deps.clock, options.transport, () => options.transportRetryMs)
    this.#setDaily()
    this.#running = this.#run()
  }

  get transport(): Follow['transport'] {
    return this.#transport
  }

  summary(): { cursor: string; count: number; digest: string } | null {
    const { cursor, levels } = this.map
    return this.#transport === 'none' || this.#transport === 'poll' || cursor === null ? null : { cursor, ...levels.summary() }
  }

  restart(reason = 'digest'): void {
    this.#etag = null
    // Without a cursor a complete list is under way already, and it may be the one that carries what somebody approved.
    if (this.map.cursor === null && reason !== 'approved') return
    this.#reason = reason
    this.#stream?.abort(new RestartAsked('a complete list is asked for'))
  }

  wake(): void {
    this.#standing = freshStanding
    this.#nap.abort()
  }

  async stop(): Promise<void> {
    this.#daily?.cancel()
    this.#stopping.abort(new Error('the agent stops'))
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const way = this.#ways.next
      const pauseMs = way === 'poll' ? await this.#pollTurn() : await this.#streamTurn(way)
      this.#nap = new AbortController()
      await this.#deps.clock.sleep(pauseMs, AbortSignal.any([signal, this.#nap.signal])).catch(() => undefined)
    }
    this.#setTransport('none')
  }

  /** By its own timer, so that it happens also while nothing goes wrong. */
  #setDaily(): void {
    this.#daily = this.#deps.clock.setTimer(jittered(this.#options.snapshotMs, 0.1), () => {
      this.restart('daily')
      this.#setDaily()
    })
  }

  /** Gives the pause before the next turn. */
  async #streamTurn(way: Exclude<Way, 'poll'>): Promise<number> {
    const { clock, metrics } = this.#deps
    const before = this.map.cursor
    const startedMs = clock.monotonicMs()
    const end = await this.#follow(way)
    if (this.#stopping.signal.aborted) return 0
    if (end.how !== 'polled') this.#setTransport('none')
    metrics.streamEnds.inc({ how: end.how })
    const next = nextTry(this.#standing, endedAs(end, clock.monotonicMs() - startedMs, before, this.map.cursor))
    this.#standing = next.standing
    if (next.cursor === 'drop') this.map.cursor = null
    if (end.how === 'refused' && end.code === 'bad_cursor') this.map.seen = null
    if (this.#isOtherWay(way, next.transport)) return 0
    return Math.max(next.atLeastMs, this.#backoffMs(next.backoffAttempt), this.#refusedMs(end))
  }

  /** True: the next turn goes another way, at once. */
  #isOtherWay(way: Way, wanted: Way): boolean {
    // A trial that brought no frame: what works goes on.
    const isTrial = way !== this.#ways.usual
    if (!isTrial && (wanted === 'stream' || wanted === way)) return false
    const hasChanged = this.#ways.failed(way, isTrial ? this.#ways.usual : wanted)
    if (hasChanged)
      this.#deps.log.warn('another way to the broker', { way: wanted, instead_of: way, retry_ms: this.#options.transportRetryMs })
    if (hasChanged || isTrial) this.#standing = freshStanding
    return hasChanged || isTrial
  }

  async #follow(way: Exclude<Way, 'poll'>): Promise<StreamEnd> {
    const { clock, log, metrics, session } = this.#deps
    const { deadMs, silentMs, longPollMs } = this.#options
    this.#stream = new AbortController()
    const signal = AbortSignal.any([this.#stopping.signal, this.#stream.signal])
    const onOpen = () => {
      this.#ways.worked(way)
      this.#setTransport(way)
    }
    const deps = { broker: session.broker, clock, log, metrics, handlers: this.#handlers, onOpen }
    // What holds streams back hands over a long poll when it is complete.
    const times = way === 'stream' ? { firstMs: silentMs, deadMs } : { firstMs: longPollMs + silentMs, deadMs: longPollMs + silentMs }
    return followStream(deps, this.map, this.#request(way), { ...times, signal })
  }

  /** Count and digest spare the broker a list of what we have, unless it is the list itself that we want. */
  #request(way: Way): StreamRequest {
    const { cursor, seen, levels } = this.map
    const { agentId } = this.#deps.session
    const reason = this.#reason
    this.#reason = null
    if (reason === 'digest') this.map.isDoubted = true
    const wait = way === 'longpoll' ? { wait: `${this.#options.longPollMs / 1000}s` } : {}
    if (cursor !== null) return { agentId, cursor, ...levels.summary(), ...wait }
    return { agentId, ...(seen === null ? {} : { seen }), ...(reason === null ? {} : { reason }), ...wait }
  }

  #backoffMs(attempt: number | null): number {
    return attempt === null ? 0 : backoffDelayMs({ ...this.#options.reconnect, jitter: 'full' }, attempt)
  }

  #refusedMs(end: StreamEnd): number {
    const isRefused = end.how === 'refused' && [401, 403, 426].includes(end.status)
    return isRefused && this.#standing.failures > patientRefusals ? this.#options.refusedRetryMs : 0
  }

  async #pollTurn(): Promise<number> {
    const { clock, log, metrics, session } = this.#deps
    const startedMs = clock.monotonicMs()
    try {
      const wish = { agentId: session.agentId, etag: this.#etag, seen: this.map.seen }
      const polled = await poll({ client: session.broker.client }, wish, this.#stopping.signal)
      this.#setTransport('poll')
      this.#hasFailed = false
      metrics.lastPoll.set(clock.now() / 1000)
      metrics.polls.inc({ status: polled.is === 'unchanged' ? 'unchanged' : polled.isComplete ? 'complete' : 'incomplete' })
      if (polled.is === 'list') {
        this.#etag = polled.isComplete ? polled.etag : null
        for (const effect of takePolled(this.map, polled)) tell(this.#handlers, effect)
        this.#handlers.onChanged()
      }
    } catch (error) {
      if (this.#stopping.signal.aborted) return 0
      if (error instanceof ApiError && error.code === 'bad_cursor') this.map.seen = null
      metrics.polls.inc({ status: 'failed' })
      if (!this.#hasFailed) log.warn('poll failed; what runs goes on', { error: toError(error) })
      this.#hasFailed = true
    }
    metrics.pollSeconds.observe((clock.monotonicMs() - startedMs) / 1000)
    return Math.min(this.#options.pollMs, this.#ways.untilTrialMs)
  }

  #setTransport(transport: Follow['transport']): void {
    this.#transport = transport
    for (const each of ['stream', 'longpoll', 'poll', 'none'] as const)
      this.#deps.metrics.session.set({ transport: each }, each === transport ? 1 : 0)
  }
}

const endedAs = (end: StreamEnd, lastedMs: number, before: string | null, after: string | null): Ended => ({
  end,
  lastedMs,
  hadCursor: before !== null,
  hasMoved: before !== after,
})
