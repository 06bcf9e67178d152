// Metrics of runs, promotions and targets. Counts are made where a phase is written; gauges are read from the records at each scrape.
import type { PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { strategyKindOf } from '@brokkr/contract/pipelines/strategy.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { isOpen } from '../decide/newest.ts'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import type { Leadership } from './leadership.ts'
import type { Records } from './records.ts'

/** From a second to a week: a promotion may wait for people. */
const LONG_BUCKETS = [1, 5, 15, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 259_200, 604_800]

export class PipelineMetrics {
  readonly #promotions
  readonly #promotionSeconds
  readonly #phaseSeconds
  readonly #approvalWait
  readonly #leadTime
  readonly #runs
  readonly #attempts

  constructor(metrics: Metrics) {
    const place = ['pipeline', 'environment'] as const
    this.#promotions = metrics.counter('promotions_total', 'Promotions that entered a phase', [...place, 'phase'])
    this.#promotionSeconds = metrics.histogram('promotion_seconds', 'Seconds from record to success of a promotion', place, LONG_BUCKETS)
    this.#phaseSeconds = metrics.histogram('phase_seconds', 'Seconds that promotions spent in a phase', ['phase'], LONG_BUCKETS)
    this.#approvalWait = metrics.histogram('approval_wait_seconds', 'Seconds until a promotion was approved', place, LONG_BUCKETS)
    this.#leadTime = metrics.histogram(
      'lead_time_seconds',
      'Seconds from start of a run to success in the last environment',
      ['pipeline'],
      LONG_BUCKETS,
    )
    this.#runs = metrics.counter('runs_total', 'Runs started, by cause', ['cause'])
    this.#attempts = metrics.counter('attempts_total', 'Ended attempts by strategy and class of failure', ['strategy', 'class'])
  }

  runStarted(cause: string): void {
    this.#runs.inc({ cause })
  }

  /** After a status was written; `before` is the status that the pass read. */
  statusWritten(pipeline: PipelineRecord, promotion: PromotionRecord, before: PromotionStatus, nowMs: number): void {
    const { status, spec } = promotion
    this.#countAttempt(promotion, before)
    if (status.phase === before.phase || status.phase === undefined) return
    const place = { pipeline: pipeline.key, environment: spec.environment }
    this.#promotions.inc({ ...place, phase: status.phase })
    const sinceMs = Date.parse(before.phaseSince ?? promotion.createdAt)
    this.#phaseSeconds.observe({ phase: before.phase ?? 'Pending' }, secondsBetween(sinceMs, nowMs))
    if (before.phase === 'AwaitingApproval' && status.phase === 'Queued') this.#approvalWait.observe(place, secondsBetween(sinceMs, nowMs))
    if (status.phase !== 'Succeeded') return
    this.#promotionSeconds.observe(place, secondsBetween(Date.parse(promotion.createdAt), nowMs))
    const { run } = pipeline.status
    if (run?.number === spec.run && isLast(pipeline, spec.environment))
      this.#leadTime.observe({ pipeline: pipeline.key }, secondsBetween(Date.parse(run.startedAt), nowMs))
  }

  #countAttempt({ spec, status }: PromotionRecord, before: PromotionStatus): void {
    const last = status.attempts?.at(-1)
    const isNew = last?.endedAt !== undefined && last.endedAt !== before.attempts?.at(-1)?.endedAt
    if (isNew) this.#attempts.inc({ strategy: strategyKindOf(spec.strategy) ?? 'none', class: last.class ?? last.outcome })
  }
}

/** Gauges of the leader; a standby reports none, so that sums over replicas are right. */
export function measureRecords(metrics: Metrics, deps: { records: Records; leadership: Leadership }): void {
  const closed = metrics.gauge('gate_closed', 'Pipelines whose run is held back, by kind of reason', ['kind'])
  const pulls = metrics.gauge('open_pull_requests', 'Open pull requests of promotions')
  const target = ['pipeline', 'environment', 'target'] as const
  const ready = metrics.gauge('target_ready', 'Whether a target is ready: 1 or 0', target)
  const revisions = metrics.gauge('target_revision_info', 'Revision of a target, as a label', [...target, 'revision'])
  metrics.beforeScrape(() => {
    for (const gauge of [closed, ready, revisions]) gauge.reset()
    pulls.set(0)
    if (!deps.leadership.isLeader) return
    for (const pipeline of deps.records.listPipelines()) {
      const pending = pipeline.status.conditions?.find(({ type }) => type === 'PromotionPending')
      if (pending?.status === 'True') closed.inc({ kind: pending.reason })
      for (const [environment, { targets = [] }] of Object.entries(pipeline.status.environments ?? {})) {
        for (const [index, each] of targets.entries()) {
          const labels = { pipeline: pipeline.key, environment, target: String(index) }
          ready.set(labels, each.ready ? 1 : 0)
          if (each.revision !== undefined) revisions.set({ ...labels, revision: each.revision }, 1)
        }
      }
      pulls.inc(deps.records.listPromotions(pipeline.uid).filter(hasOpenPull).length)
    }
  })
}

const hasOpenPull = (promotion: PromotionRecord): boolean =>
  isOpen(promotion) && ['open', 'mergeable'].includes(promotion.status.effect?.prState ?? '')

const secondsBetween = (fromMs: number, toMs: number): number => Math.max(0, (toMs - fromMs) / 1000)

function isLast({ spec }: PipelineRecord, environment: string): boolean {
  const names = spec.ok ? spec.spec.environments.filter(({ targets }) => targets.length > 0).map(({ name }) => name) : []
  return names.at(-1) === environment
}
