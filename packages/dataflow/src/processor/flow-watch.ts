// Everything that is told about a flow while it runs: counts, gauges, what is unavailable or blocked, and the answer of /progress.
// Holds no part of the work itself.
import type { Blocked, LagReport, Progress } from '@brokkr/contract/dataflow/progress.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Activity } from './activity.ts'
import type { OpenBudget } from './budget.ts'
import type { Chain, StepCounts } from './chain.ts'
import type { FlowCheckpoint } from './checkpoint.ts'
import { connectorErrorOf } from './classify.ts'
import type { Committer } from './committer.ts'
import type { ConnectorError, Source } from './connectors/connector.ts'
import { exactlyOnceState, flowingState } from './flow-conditions.ts'
import type { FlowCounts } from './flow-counts.ts'
import type { FlowSettings } from './flow-settings.ts'
import { type Hold, Holds } from './holds.ts'
import type { Judge } from './judge.ts'
import type { Lane } from './lane.ts'
import type { Message } from './message.ts'
import type { FlowMetrics } from './metrics.ts'
import type { Ending, Item } from './open-message.ts'
import type { OpenMessages } from './open-messages.ts'
import { Unwritten } from './writer.ts'

export interface WatchDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FlowMetrics
  readonly activity: Activity
  readonly counts: FlowCounts
  readonly open: OpenMessages
  readonly budget: OpenBudget
  readonly source: Pick<Source, 'lag' | 'describe'>
  readonly checkpoint: FlowCheckpoint | undefined
  readonly redact: (text: string) => string
}
export interface WatchParts {
  readonly flow: Flow
  readonly settings: FlowSettings
  readonly specHash: string
  readonly lanes: readonly Lane[]
  readonly committer: Committer
}
export interface Where {
  readonly operation: 'connect' | 'read' | 'write' | 'commit' | 'save'
  readonly connector: string
  readonly at: string
}
export interface Trouble {
  readonly where: Where
  readonly sinceMs: number
  error: ConnectorError
  hold: Hold | undefined
}

const noticesMax = 50

export class FlowWatch {
  readonly #deps: WatchDeps
  readonly #parts: WatchParts
  readonly holds: Holds
  readonly #trouble = new Map<string, Trouble>()
  readonly #notices: { id: number; reason: string; message: string }[] = []
  readonly #recent = { written: 0, ended: 0, atMs: 0 }
  #noticeId = 0
  #lag: LagReport = {}
  #savedAtMs: number
  judge: Judge | undefined
  chain: Chain | undefined
  #stepsSeen: StepCounts[] = []

  constructor(deps: WatchDeps, parts: WatchParts) {
    this.#deps = deps
    this.#parts = parts
    this.#savedAtMs = deps.clock.monotonicMs()
    this.holds = new Holds(deps.clock, (blocked) => this.#blocked(blocked))
  }

  /** Lag and rates, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#look().catch((error: unknown) => this.#deps.log.debug('lag is not known', { reason: this.#deps.redact(String(error)) }))
      await this.#deps.clock.sleep(this.#parts.settings.lagEveryMs, signal).catch(() => {})
    }
  }

  async #look(): Promise<void> {
    const { metrics, clock } = this.#deps
    const seconds = Math.max(0.001, (clock.monotonicMs() - this.#recent.atMs) / 1000)
    metrics.throughput.set(this.#recent.ended / seconds)
    if (this.#recent.ended > 0) metrics.success.set(this.#recent.written / this.#recent.ended)
    Object.assign(this.#recent, { written: 0, ended: 0, atMs: clock.monotonicMs() })
    const lag = await this.#deps.source.lag()
    this.#lag = lag
    for (const unit of ['messages', 'seconds', 'bytes'] as const) if (lag[unit] !== undefined) metrics.lag(unit).set(lag[unit])
    if (this.#parts.flow.source.type === 'postgresql-cdc' && lag.bytes !== undefined) metrics.retained.set(lag.bytes)
  }

  read(messages: readonly Message[]): void {
    const { metrics } = this.#deps
    const { type } = this.#parts.flow.source
    metrics.received(type).inc(messages.length)
    metrics.read(type).inc(messages.length)
    for (const { bytes } of messages) metrics.sizes.observe(bytes)
    this.works({ operation: 'read', connector: type, at: 'source' })
  }

  transformed(messages: number, ms: number): void {
    this.#deps.metrics.processing.observe(ms / 1000 / messages, messages)
    this.#deps.metrics.stageSeconds('transform').observe(ms / 1000)
  }

  /** The chain has counted further; shares of its steps in time are not measured one by one. */
  #stepMetrics(): void {
    const counts = this.chain?.counts ?? []
    const seen = this.#stepsSeen
    this.#stepsSeen = counts.map((count) => ({ ...count }))
    this.stepsRan(
      counts.map((count, at) => ({
        type: count.type,
        messagesIn: count.messagesIn - (seen[at]?.messagesIn ?? 0),
        messagesOut: count.messagesOut - (seen[at]?.messagesOut ?? 0),
        errors: count.errors - (seen[at]?.errors ?? 0),
        keyCollisions: count.keyCollisions - (seen[at]?.keyCollisions ?? 0),
      })),
    )
  }

  stepsRan(counts: readonly StepCounts[]): void {
    for (const [index, count] of counts.entries()) {
      const step = this.#deps.metrics.step(count.type, index)
      step.executions.inc(count.messagesIn)
      step.in.inc(count.messagesIn)
      step.out.inc(count.messagesOut)
      if (count.errors > 0) step.error('invalid_data', count.errors)
      if (count.keyCollisions > 0) step.collisions.inc(count.keyCollisions)
    }
  }

  written(lane: Lane, items: readonly Item[], tookMs: number): void {
    const { metrics, clock } = this.#deps
    const { sinkType, name, role } = lane.options
    metrics.sent(sinkType, name).inc(items.length)
    metrics.written(sinkType, name).inc(items.length)
    metrics.batches(sinkType, name).observe(items.length)
    metrics.stageSeconds('write').observe(tookMs / 1000)
    metrics.operation('write', true)
    const nowMs = clock.now()
    if (role !== 'errors')
      for (const { record, from } of items) metrics.endToEnd.observe((nowMs - sourceTimeMs(record, from.readAtMs)) / 1000)
    this.works({ operation: 'write', connector: sinkType, at: name })
  }

  avoided(lane: Lane): void {
    this.#deps.metrics.avoided(lane.options.sinkType, lane.options.name).inc()
  }

  ended(ending: Ending): void {
    this.#recent.ended += 1
    if (ending === 'written') this.#recent.written += 1
  }

  dropped(reason: string, count: number): void {
    this.#deps.metrics.dropped(reason).inc(count)
  }

  lettered(stage: string, type: string): void {
    this.#deps.metrics.letter(stage, type)
    this.#deps.metrics.stageError(stage, type)
  }

  committed(): void {
    this.#deps.metrics.operation('commit', true)
  }

  saved(): void {
    this.#savedAtMs = this.#deps.clock.monotonicMs()
    this.#deps.metrics.operation('save', true)
  }

  notice(reason: string, message: string): void {
    this.#noticeId += 1
    this.#notices.push({ id: this.#noticeId, reason, message: this.#deps.redact(message) })
    if (this.#notices.length > noticesMax) this.#notices.shift()
    this.#deps.log.warn('notice', { reason, detail: this.#deps.redact(message) })
  }

  /** One line when trouble begins, one when it ends; the tries between them are counted. */
  failed(where: Where, thrown: unknown): void {
    const error = connectorErrorOf(thrown)
    const { metrics, log, clock, activity } = this.#deps
    activity.touch()
    metrics.connectorError(where.connector, where.at, where.operation, error.type)
    metrics.stageError(where.operation, error.type)
    metrics.operation(where.operation, false)
    if (error.class === 'record') return
    const key = where.at
    const known = this.#trouble.get(key)
    const trouble: Trouble = known ?? { where, sinceMs: clock.monotonicMs(), error, hold: undefined }
    trouble.error = error
    this.#trouble.set(key, trouble)
    if (where.at === 'source') metrics.pollHealthy(where.connector, false)
    metrics.connected(where.connector, where.at, false)
    const fields = { ...whereFields(where), class: error.class, type: error.type, reason: this.#deps.redact(error.message) }
    if (known === undefined) log.warn('a part of the flow is unavailable', fields)
    else log.debug('still unavailable', fields)
    const isRefused = error.class === 'config' || error.class === 'unknown'
    if (isRefused && clock.monotonicMs() - trouble.sinceMs >= this.#parts.settings.blockedAfterMs) this.#holdTrouble(trouble)
  }

  #holdTrouble(trouble: Trouble): void {
    const { where, error } = trouble
    const stage = where.at === 'source' ? 'source' : where.at === 'errors' ? 'errors' : 'sink'
    const reason = {
      stage,
      connector: where.connector,
      errorType: error.type,
      message: this.#deps.redact(error.message),
      position: '',
    } as const
    if (trouble.hold === undefined) trouble.hold = this.holds.begin(reason)
    else trouble.hold.update(reason)
  }

  works(where: Where): void {
    const trouble = this.#trouble.get(where.at)
    if (trouble === undefined && where.operation !== 'connect') return
    this.#deps.metrics.connected(where.connector, where.at, true)
    if (where.at === 'source') this.#deps.metrics.pollHealthy(where.connector, true)
    if (trouble === undefined) return
    this.#trouble.delete(where.at)
    trouble.hold?.end()
    this.#deps.log.info('available again', whereFields(where))
  }

  /** The errors sink refuses a letter even without its payload: it is tried again for ever. */
  async lettersRefused(item: Item, error: ConnectorError, stopping: AbortSignal): Promise<'again'> {
    const position = this.#deps.source.describe(new Map([[item.from.tracker.partition, item.from.position]]))
    const hold = this.holds.begin({
      stage: 'errors',
      connector: 'errors',
      errorType: error.type,
      message: this.#deps.redact(error.message),
      position,
    })
    try {
      await this.#deps.clock.sleep(this.#parts.settings.blockedEveryMs, stopping)
    } catch (cause) {
      throw new Unwritten('the process stops while the errors sink refuses a letter', { cause })
    } finally {
      hold.end()
    }
    return 'again'
  }

  #blocked(blocked: Blocked | undefined): void {
    this.#deps.metrics.blocked.set(blocked === undefined ? 0 : 1)
    if (blocked === undefined) this.#deps.log.info('no longer blocked')
    else
      this.#deps.log.warn('blocked', { stage: blocked.stage, type: blocked.errorType, reason: blocked.message, position: blocked.position })
  }

  /** Gauges, just before a scrape. */
  scrape(): void {
    const { metrics, open, budget, clock } = this.#deps
    this.#stepMetrics()
    metrics.active.set(open.open)
    metrics.inflight.set(budget.bytes)
    metrics.checkpointAge.set((clock.monotonicMs() - this.#savedAtMs) / 1000)
    for (const lane of this.#parts.lanes) metrics.queue(lane.options.name).set(lane.waiting)
  }

  progress(about: { pod: string; version: string; isReady: boolean }): Progress {
    const { counts, checkpoint, open, budget, source, redact } = this.#deps
    const blocked = this.holds.blocked
    const applied = checkpoint?.applied
    return {
      ...(checkpoint?.savedCounters(counts.counters) ?? counts.counters),
      ...about,
      specHash: this.#parts.specHash,
      position: redact(source.describe(this.#parts.committer.done)),
      lag: this.#lag,
      ...(blocked === undefined ? {} : { blocked: { ...blocked, message: redact(blocked.message) } }),
      flowing: flowingState({
        blocked,
        trouble: [...this.#trouble.values()],
        frozen: this.judge?.frozen ?? 0,
        open: open.open,
        ...about,
        redact,
      }),
      exactlyOnce: exactlyOnceState(this.#parts.lanes.map((lane) => lane.capabilities)),
      openMessages: open.open,
      openBytes: budget.bytes,
      ...(applied?.resetId === undefined ? {} : { appliedReset: applied.resetId }),
      ...(applied?.rewindId === undefined ? {} : { appliedRewind: applied.rewindId }),
      notices: [...this.#notices],
    }
  }
}

const whereFields = ({ operation, connector, at }: Where) => ({ operation, connector, part: at })

/** When the source says it happened, else when it was read. */
function sourceTimeMs({ metadata }: Message, readAtMs: number): number {
  const at = metadata['timestamp'] ?? metadata['commit_time']
  return at instanceof Date ? at.getTime() : readAtMs
}
