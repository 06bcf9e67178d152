// Reports that wait for the broker, bounded: the latest status row of each stack, and events in order.

import type { StackReport } from '@brokkr/contract/feed/stream.ts'
import type { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import type { AgentMetrics } from '../metrics.ts'
import { parseTimestampMs } from '../reconcile/uuid7.ts'
import { EventSpool, type SpooledEvent, type SpoolLimits } from './event-spool.ts'

interface Row {
  readonly report: StackReport
  /** Event that must be sent first: the broker refuses events of a removed stack. */
  readonly after: string | null
  /** The stack left the desired state; its row is dropped after it was sent. */
  readonly isLast: boolean
}
const defaultLimits: SpoolLimits = { count: 10_000, bytes: 16 * 1024 * 1024 }
/** Limits of one request. */
const batch: SpoolLimits = { count: 200, bytes: 1024 * 1024 }

export class Outbox {
  readonly #metrics: AgentMetrics
  readonly #rows = new Map<StackId, Row>()
  readonly #told = new Map<StackId, StackReport>()
  readonly #events: EventSpool
  #onNews: (isUrgent: boolean) => void = () => undefined

  constructor(deps: { metrics: AgentMetrics }, limits: SpoolLimits = defaultLimits) {
    this.#metrics = deps.metrics
    this.#events = new EventSpool(limits, (isLost) => this.#metrics.eventsLost.inc({ reason: isLost ? 'spool_full' : 'folded' }))
  }

  /** Called when there is something to send; not urgent: it can wait for the next run. */
  onNews(listener: (isUrgent: boolean) => void): void {
    this.#onNews = listener
  }

  report(report: StackReport, { after = null, isLast = false }: Partial<Pick<Row, 'after' | 'isLast'>> = {}): void {
    const latest = this.#rows.get(report.stack_id)?.report ?? this.#told.get(report.stack_id)
    if (latest && isSame(latest, report)) return
    this.#rows.set(report.stack_id, { report, after, isLast })
    this.#arrived(latest, report)
    // `applying` can wait: usually the outcome follows at once.
    this.#onNews(report.phase !== 'pending')
  }

  /** Only for attempts of this process: after a restart all stacks are reported, and none was just applied. */
  #arrived(before: StackReport | undefined, { phase, object_id, observed_at }: StackReport): void {
    const isArrival = phase === 'applied' && before?.phase === 'pending' && before.object_id === object_id
    const madeMs = isArrival && object_id !== null ? parseTimestampMs(object_id) : null
    if (madeMs !== null) this.#metrics.propagation.observe(Math.max(0, Date.parse(observed_at) - madeMs) / 1000)
  }

  event(event: NewAgentEvent): void {
    if (event.id === undefined) throw new TypeError('an event needs an id, or it could not be repeated')
    this.#events.add({ ...event, id: event.id })
    this.#metrics.spooled.set(this.#events.size)
    this.#onNews(true)
  }

  /** The oldest events that fit one request. */
  nextEvents(): SpooledEvent[] {
    return this.#events.next(batch)
  }

  /** All waiting events, for the state file. */
  allEvents(): SpooledEvent[] {
    return this.#events.all()
  }

  eventDone({ id }: Pick<NewAgentEvent, 'id'>): void {
    this.#events.done(id ?? '')
    this.#metrics.spooled.set(this.#events.size)
  }

  /** Rows that may be sent now. */
  nextRows(max: number): StackReport[] {
    const ready = [...this.#rows.values()].filter(({ after }) => after === null || !this.#events.has(after))
    return ready.slice(0, max).map(({ report }) => report)
  }

  rowsDone(reports: readonly StackReport[]): void {
    for (const report of reports) {
      const row = this.#rows.get(report.stack_id)
      // A newer row may have been added while this one was in flight.
      if (row?.report === report) this.#rows.delete(report.stack_id)
      if (row?.report === report && row.isLast) this.#told.delete(report.stack_id)
      else this.#told.set(report.stack_id, report)
    }
  }

  /** A new epoch: the broker may have lost earlier reports. */
  resendAll(): void {
    for (const [stackId, report] of this.#told)
      if (!this.#rows.has(stackId)) this.#rows.set(stackId, { report, after: null, isLast: false })
    this.#told.clear()
    this.#onNews(false)
  }

  /** The latest row of the stack, sent or waiting. */
  newest(stackId: StackId): StackReport | undefined {
    return this.#rows.get(stackId)?.report ?? this.#told.get(stackId)
  }

  /** Number of stacks by phase. */
  phases(): Map<StackReport['phase'], number> {
    const counts = new Map<StackReport['phase'], number>()
    const newest = new Map([...this.#told, ...[...this.#rows].map(([stackId, { report }]) => [stackId, report] as const)])
    for (const { phase } of newest.values()) counts.set(phase, (counts.get(phase) ?? 0) + 1)
    return counts
  }

  get isEmpty(): boolean {
    return this.#rows.size === 0 && this.#events.size === 0
  }
}

const isSame = (a: StackReport, b: StackReport): boolean =>
  a.rev === b.rev &&
  a.object_id === b.object_id &&
  a.phase === b.phase &&
  (a.code ?? null) === (b.code ?? null) &&
  (a.message ?? null) === (b.message ?? null) &&
  a.attempts === b.attempts
