// What the broker is still to be told, bounded while it is away: the newest row of each stack, and events in their order.
import type { NewAgentEvent } from '@brokkr/contract/event.ts'
import type { StackReport } from '@brokkr/contract/stream.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import type { AgentMetrics } from '../metrics.ts'
import { EventSpool, type SpooledEvent, type SpoolLimits } from './event-spool.ts'
import { madeAtMs } from './uuid7.ts'

interface Row {
  readonly report: StackReport
  /** An event that must be told first: the broker takes events of a removed stack no more. */
  readonly after: string | null
  /** The stack is gone from the map; nothing of it need be remembered. */
  readonly isLast: boolean
}
const defaultLimits: SpoolLimits = { count: 10_000, bytes: 16 * 1024 * 1024 }
/** What one request carries. */
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

  /** Called when something is there to tell; not urgent: it may wait for the next round. */
  onNews(listener: (isUrgent: boolean) => void): void {
    this.#onNews = listener
  }

  report(report: StackReport, { after = null, isLast = false }: Partial<Pick<Row, 'after' | 'isLast'>> = {}): void {
    const latest = this.#rows.get(report.stack_id)?.report ?? this.#told.get(report.stack_id)
    if (latest && isSame(latest, report)) return
    this.#rows.set(report.stack_id, { report, after, isLast })
    this.#arrived(latest, report)
    // "Under way" may wait: mostly the end comes first.
    this.#onNews(report.phase !== 'pending')
  }

  /** Only what was seen under way: after a restart everything that stands is told, and nothing of it has just arrived. */
  #arrived(before: StackReport | undefined, { phase, object_id, observed_at }: StackReport): void {
    const isArrival = phase === 'applied' && before?.phase === 'pending' && before.object_id === object_id
    const madeMs = isArrival && object_id !== null ? madeAtMs(object_id) : null
    if (madeMs !== null) this.#metrics.propagation.observe(Math.max(0, Date.parse(observed_at) - madeMs) / 1000)
  }

  event(event: NewAgentEvent): void {
    if (event.id === undefined) throw new TypeError('an event needs an id, or it could not be repeated')
    this.#events.add({ ...event, id: event.id })
    this.#metrics.spooled.set(this.#events.size)
    this.#onNews(true)
  }

  /** The oldest that one request can carry. */
  nextEvents(): SpooledEvent[] {
    return this.#events.next(batch)
  }

  /** Everything that waits, for keeping it across a restart. */
  allEvents(): SpooledEvent[] {
    return this.#events.all()
  }

  eventDone({ id }: Pick<NewAgentEvent, 'id'>): void {
    this.#events.done(id ?? '')
    this.#metrics.spooled.set(this.#events.size)
  }

  /** Rows that may go now. */
  nextRows(max: number): StackReport[] {
    const ready = [...this.#rows.values()].filter(({ after }) => after === null || !this.#events.has(after))
    return ready.slice(0, max).map(({ report }) => report)
  }

  rowsDone(reports: readonly StackReport[]): void {
    for (const report of reports) {
      const row = this.#rows.get(report.stack_id)
      // A newer row may have come while this one travelled.
      if (row?.report === report) this.#rows.delete(report.stack_id)
      if (row?.report === report && row.isLast) this.#told.delete(report.stack_id)
      else this.#told.set(report.stack_id, report)
    }
  }

  /** The broker has another history: what it knew of us may be gone. */
  tellAllAgain(): void {
    for (const [stackId, report] of this.#told)
      if (!this.#rows.has(stackId)) this.#rows.set(stackId, { report, after: null, isLast: false })
    this.#told.clear()
    this.#onNews(false)
  }

  /** What the broker was last told of the stack, or will be. */
  newest(stackId: StackId): StackReport | undefined {
    return this.#rows.get(stackId)?.report ?? this.#told.get(stackId)
  }

  /** Counts of the newest row of each stack. */
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
