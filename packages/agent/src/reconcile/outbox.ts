// What the broker is still to be told, bounded while it is away: the newest row of each stack, and events in their order. At the
// bound the oldest event of the stack that fills it goes, and is counted.
import type { NewAgentEvent } from '@brokkr/contract/event.ts'
import type { StackReport } from '@brokkr/contract/stream.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import type { AgentMetrics } from '../metrics.ts'

interface Row {
  readonly report: StackReport
  /** An event that must be told first: the broker takes events of a removed stack no more. */
  readonly after: string | null
  /** The stack is gone from the map; nothing of it need be remembered. */
  readonly isLast: boolean
}
const eventsMax = 10_000

export class Outbox {
  readonly #metrics: AgentMetrics
  readonly #rows = new Map<StackId, Row>()
  readonly #told = new Map<StackId, StackReport>()
  readonly #events = new Map<string, NewAgentEvent>()
  #onNews: () => void = () => undefined

  constructor(deps: { metrics: AgentMetrics }) {
    this.#metrics = deps.metrics
  }

  /** Called when something is there that should not wait. */
  onNews(listener: () => void): void {
    this.#onNews = listener
  }

  report(report: StackReport, { after = null, isLast = false }: Partial<Pick<Row, 'after' | 'isLast'>> = {}): void {
    const latest = this.#rows.get(report.stack_id)?.report ?? this.#told.get(report.stack_id)
    if (latest && isSame(latest, report)) return
    this.#rows.set(report.stack_id, { report, after, isLast })
    // "Under way" may wait for the next round: mostly the end comes first.
    if (report.phase !== 'pending') this.#onNews()
  }

  event(event: NewAgentEvent): void {
    if (event.id === undefined) throw new TypeError('an event needs an id, or it could not be repeated')
    this.#events.set(event.id, event)
    if (this.#events.size > eventsMax) this.#dropOne(event.deployment_object_id)
    this.#metrics.spooled.set(this.#events.size)
    this.#onNews()
  }

  nextEvent(): NewAgentEvent | undefined {
    return this.#events.values().next().value
  }

  eventDone(event: NewAgentEvent): void {
    this.#events.delete(event.id ?? '')
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

  #dropOne(objectId: string): void {
    const victim = [...this.#events.values()].find((event) => event.deployment_object_id === objectId)
    if (victim?.id !== undefined) this.#events.delete(victim.id)
    this.#metrics.eventsLost.inc({ reason: 'spool_full' })
  }
}

const isSame = (a: StackReport, b: StackReport): boolean =>
  a.rev === b.rev &&
  a.object_id === b.object_id &&
  a.phase === b.phase &&
  (a.code ?? null) === (b.code ?? null) &&
  (a.message ?? null) === (b.message ?? null) &&
  a.attempts === b.attempts
