// Records what happens in a flow while it runs: counters, outages, notices and block reasons. `flow-report.ts` reads it; no other part
// of the processor depends on its content.
import type { Blocked, SourceConditionType } from '@brokkr/contract/dataflow/progress.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { ConnectorError } from '../../connectors/connector.ts'
import type { Message } from '../../message/message.ts'
import type { StepCounts } from '../chain/chain.ts'
import { type Block, BlockReasons } from '../dead-letter/block-reasons.ts'
import type { FlowSettings } from '../flow-settings.ts'
import type { MessageOutcome, QueueEntry } from '../pipeline/in-flight-message.ts'
import { toConnectorError } from '../sinks/classify.ts'
import type { SinkWorker } from '../sinks/sink-worker.ts'
import type { Activity } from './activity.ts'
import type { FlowMetrics } from './flow-metrics.ts'

export interface FlowStatusDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FlowMetrics
  readonly activity: Activity
  readonly redact: (text: string) => string
}
export interface FlowLocation {
  readonly operation: 'connect' | 'read' | 'write' | 'commit' | 'save'
  readonly connector: string
  readonly at: string
}
export interface Outage {
  readonly where: FlowLocation
  readonly sinceMs: number
  error: ConnectorError
  block: Block | undefined
}
export interface Notice {
  readonly id: number
  readonly reason: string
  readonly message: string
}

const maxNotices = 50

export class FlowStatus {
  readonly #deps: FlowStatusDeps
  readonly #sourceType: string
  readonly #blockedAfterMs: number
  readonly blockReasons: BlockReasons
  readonly #outages = new Map<string, Outage>()
  readonly #notices: Notice[] = []
  readonly #sourceConditions = new Map<SourceConditionType, string>()
  #recentOutcomes = { written: 0, all: 0 }
  #noticeId = 0
  savedAtMs: number
  lastReadMs = 0
  /** A batch was read and is not yet in the sink queues. */
  isEnqueuing = false
  lastOutputMs = 0

  constructor(deps: FlowStatusDeps, options: { readonly sourceType: string; readonly settings: Pick<FlowSettings, 'blockedAfterMs'> }) {
    this.#deps = deps
    this.#sourceType = options.sourceType
    this.#blockedAfterMs = options.settings.blockedAfterMs
    this.savedAtMs = deps.clock.monotonicMs()
    this.blockReasons = new BlockReasons(deps.clock, (blocked, messageId) => this.#logBlocked(blocked, messageId))
  }

  get outages(): readonly Outage[] {
    return [...this.#outages.values()]
  }

  get notices(): readonly Notice[] {
    return this.#notices
  }

  get sourceConditions(): { type: SourceConditionType; message: string }[] {
    return [...this.#sourceConditions].map(([type, message]) => ({ type, message }))
  }

  /** Outcomes since the last call. */
  takeRecentOutcomes(): { written: number; all: number } {
    const outcomes = this.#recentOutcomes
    this.#recentOutcomes = { written: 0, all: 0 }
    return outcomes
  }

  recordRead(messages: readonly Message[]): void {
    const { metrics, clock } = this.#deps
    this.lastReadMs = clock.monotonicMs()
    this.isEnqueuing = true
    metrics.received(this.#sourceType).inc(messages.length)
    metrics.read(this.#sourceType).inc(messages.length)
    for (const { bytes } of messages) metrics.sizes.observe(bytes)
    this.recordSuccess({ operation: 'read', connector: this.#sourceType, at: 'source' })
  }

  recordEnqueued(): void {
    this.isEnqueuing = false
  }

  recordTransform(messages: number, ms: number): void {
    this.#deps.metrics.processing.observe(ms / 1000 / messages, messages)
    this.#deps.metrics.stageSeconds('transform').observe(ms / 1000)
  }

  countSteps(counts: readonly StepCounts[]): void {
    for (const [index, count] of counts.entries()) {
      const step = this.#deps.metrics.step(count.type, index)
      step.executions.inc(count.messagesIn)
      step.in.inc(count.messagesIn)
      step.out.inc(count.messagesOut)
      if (count.errors > 0) step.error('invalid_data', count.errors)
      if (count.keyCollisions > 0) step.collisions.inc(count.keyCollisions)
    }
  }

  recordWrite(sinkWorker: SinkWorker, entries: readonly QueueEntry[], tookMs: number): void {
    const { metrics, clock } = this.#deps
    const { sinkType, name, role } = sinkWorker.options
    this.lastOutputMs = clock.monotonicMs()
    metrics.sent(sinkType, name).inc(entries.length)
    metrics.written(sinkType, name).inc(entries.length)
    metrics.batches(sinkType, name).observe(entries.length)
    metrics.stageSeconds('write').observe(tookMs / 1000)
    metrics.operation('write', true)
    const nowMs = clock.now()
    if (role !== 'errors')
      for (const { record, from } of entries) metrics.endToEnd.observe((nowMs - toSourceTimeMs(record, from.readAtMs)) / 1000)
    this.recordSuccess({ operation: 'write', connector: sinkType, at: name })
  }

  countDuplicate(sinkWorker: SinkWorker): void {
    this.#deps.metrics.avoided(sinkWorker.options.sinkType, sinkWorker.options.name).inc()
  }

  recordOutcome(outcome: MessageOutcome): void {
    this.#recentOutcomes.all += 1
    this.lastOutputMs = this.#deps.clock.monotonicMs()
    if (outcome === 'written') this.#recentOutcomes.written += 1
  }

  countDropped(reason: string, count: number): void {
    this.#deps.metrics.dropped(reason).inc(count)
  }

  recordDeadLetter({ stage, type }: { readonly stage: string; readonly type: string }, messageId: string, position: string): void {
    this.#deps.metrics.deadLetter(stage, type)
    this.#deps.metrics.stageError(stage, type)
    this.#deps.log.debug('message dead-lettered', { message_id: messageId, stage, type, position })
  }

  recordSkip(messageId: string, position: string): void {
    this.countDropped('skipped', 1)
    this.#deps.log.info('message skipped', { message_id: messageId, position })
  }

  recordCommit(): void {
    this.#deps.metrics.operation('commit', true)
    const { where } = this.#outages.get('source') ?? {}
    if (where?.operation === 'commit') this.recordSuccess(where)
  }

  recordSave(): void {
    this.savedAtMs = this.#deps.clock.monotonicMs()
    this.#deps.metrics.operation('save', true)
  }

  setSourceCondition(type: SourceConditionType, message: string | undefined): void {
    if (message === undefined) this.#sourceConditions.delete(type)
    else this.#sourceConditions.set(type, this.#deps.redact(message))
  }

  addNotice(reason: string, text: string): void {
    const message = this.#deps.redact(text)
    this.#noticeId += 1
    this.#notices.push({ id: this.#noticeId, reason, message })
    if (this.#notices.length > maxNotices) this.#notices.shift()
    this.#deps.log.warn('connector notice', { reason, detail: message })
  }

  /** Logs a warning when an outage begins; further failures of the same part are counted and logged as debug. */
  recordFailure(where: FlowLocation, thrown: unknown): void {
    const error = toConnectorError(thrown)
    const { metrics, clock, activity } = this.#deps
    activity.record()
    metrics.connectorError(where.connector, where.at, where.operation, error.type)
    metrics.stageError(where.operation, error.type)
    metrics.operation(where.operation, false)
    if (error.class === 'record') return
    const outage = this.#recordOutage(where, error)
    if (where.at === 'source') metrics.pollHealthy(where.connector, false)
    metrics.connected(where.connector, where.at, false)
    const isRejected = error.class === 'config' || error.class === 'unknown'
    if (isRejected && clock.monotonicMs() - outage.sinceMs >= this.#blockedAfterMs) this.#blockOutage(outage)
  }

  #recordOutage(where: FlowLocation, error: ConnectorError): Outage {
    const { log, clock, redact } = this.#deps
    const fields = { ...toLogFields(where), class: error.class, type: error.type, reason: redact(error.message) }
    const current = this.#outages.get(where.at)
    if (current !== undefined) {
      current.error = error
      log.debug('connector still unavailable', fields)
      return current
    }
    const outage: Outage = { where, sinceMs: clock.monotonicMs(), error, block: undefined }
    this.#outages.set(where.at, outage)
    log.warn('connector unavailable', fields)
    return outage
  }

  #blockOutage(outage: Outage): void {
    const { where, error } = outage
    const stage = where.at === 'source' ? 'source' : where.at === 'errors' ? 'errors' : 'sink'
    const message = this.#deps.redact(error.message)
    const reason = { stage, connector: where.connector, errorType: error.type, message, position: '' } as const
    if (outage.block === undefined) outage.block = this.blockReasons.add(reason)
    else outage.block.update(reason)
  }

  recordSuccess(where: FlowLocation): void {
    const outage = this.#outages.get(where.at)
    if (outage === undefined && where.operation !== 'connect') return
    this.#deps.metrics.connected(where.connector, where.at, true)
    if (where.at === 'source') this.#deps.metrics.pollHealthy(where.connector, true)
    if (outage === undefined) return
    this.#outages.delete(where.at)
    outage.block?.end()
    this.#deps.log.info('connector available again', toLogFields(where))
  }

  #logBlocked(blocked: Blocked | undefined, messageId: string | undefined): void {
    this.#deps.metrics.blocked.set(blocked === undefined ? 0 : 1)
    if (blocked === undefined) {
      this.#deps.log.info('flow no longer blocked')
      return
    }
    const { stage, errorType: type, message: reason, position } = blocked
    this.#deps.log.warn('flow blocked', { ...(messageId === undefined ? {} : { message_id: messageId }), stage, type, reason, position })
  }
}

const toLogFields = ({ operation, connector, at }: FlowLocation) => ({ operation, connector, part: at })

/** Event time of the source if it has one, else the time of the read. */
function toSourceTimeMs({ metadata }: Message, readAtMs: number): number {
  const at = metadata['timestamp'] ?? metadata['commit_time']
  return at instanceof Date ? at.getTime() : readAtMs
}
