// Reports the state of a flow: the answer of /progress, gauges for /metrics, and a loop that measures lag, rates and stalls.
import type { LagReport, Progress } from '@brokkr/contract/dataflow/progress.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Source } from '../../connectors/connector.ts'
import type { Chain, StepCounts } from '../chain/chain.ts'
import type { FlowCheckpoint } from '../checkpoint/checkpoint.ts'
import type { Committer } from '../checkpoint/committer.ts'
import type { FailurePolicy } from '../dead-letter/failure-policy.ts'
import type { FlowSettings } from '../flow-settings.ts'
import type { InFlightBudget } from '../pipeline/in-flight-budget.ts'
import type { InFlightMessages } from '../pipeline/in-flight-messages.ts'
import type { SinkWorkers } from '../sinks/sink-workers.ts'
import { findStall, toExactlyOnceCondition, toFlowingCondition } from './flow-conditions.ts'
import type { FlowCounts } from './flow-counts.ts'
import type { FlowMetrics } from './flow-metrics.ts'
import type { FlowStatus } from './flow-status.ts'

export interface FlowReportDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FlowMetrics
  readonly checkpoint: FlowCheckpoint | undefined
  readonly redact: (text: string) => string
  readonly flowStatus: FlowStatus
  readonly counts: FlowCounts
  readonly inFlight: InFlightMessages
  readonly budget: InFlightBudget
  readonly source: Pick<Source, 'lag' | 'describe'>
  readonly sinkWorkers: SinkWorkers
  readonly committer: Committer
  readonly failurePolicy: FailurePolicy
  readonly chain: Chain
}

export class FlowReport {
  readonly #deps: FlowReportDeps
  readonly #options: { readonly specHash: string; readonly settings: Pick<FlowSettings, 'lagEveryMs' | 'stalledAfterMs'> }
  #lag: LagReport = {}
  #measuredAtMs = 0
  #isStalled = false
  #countedSteps: StepCounts[] = []

  constructor(deps: FlowReportDeps, options: { specHash: string; settings: Pick<FlowSettings, 'lagEveryMs' | 'stalledAfterMs'> }) {
    this.#deps = deps
    this.#options = options
  }

  /** Measures lag and rates until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { log, redact, clock } = this.#deps
    while (!signal.aborted) {
      this.#logStall()
      this.#measureRates()
      await this.#measureLag().catch((error: unknown) => log.debug('lag unknown', { reason: redact(String(error)) }))
      await clock.sleep(this.#options.settings.lagEveryMs, signal).catch(() => {})
    }
  }

  #measureRates(): void {
    const { metrics, clock, flowStatus } = this.#deps
    const seconds = Math.max(0.001, (clock.monotonicMs() - this.#measuredAtMs) / 1000)
    const { written, all } = flowStatus.takeRecentOutcomes()
    metrics.throughput.set(all / seconds)
    if (all > 0) metrics.success.set(written / all)
    this.#measuredAtMs = clock.monotonicMs()
  }

  async #measureLag(): Promise<void> {
    const { metrics, source } = this.#deps
    const { retainedBytes, ...lag } = await source.lag()
    this.#lag = lag
    for (const unit of ['messages', 'seconds', 'bytes'] as const) if (lag[unit] !== undefined) metrics.lag(unit).set(lag[unit])
    if (retainedBytes !== undefined) metrics.retained.set(retainedBytes)
  }

  #findStall(): string | undefined {
    const { clock, budget, flowStatus, sinkWorkers } = this.#deps
    return findStall({
      nowMs: clock.monotonicMs(),
      stalledAfterMs: this.#options.settings.stalledAfterMs,
      inputWaitsSinceMs: flowStatus.isEnqueuing || budget.isSpent ? flowStatus.lastReadMs : undefined,
      lastOutputMs: flowStatus.lastOutputMs,
      sinks: sinkWorkers.all.map(({ options, writingSinceMs }) => ({ name: options.name, writingSinceMs })),
    })
  }

  /** Logs once when a stall begins and once when it ends. */
  #logStall(): void {
    const reason = this.#findStall()
    if (this.#isStalled === (reason !== undefined)) return
    this.#isStalled = reason !== undefined
    if (reason === undefined) this.#deps.log.info('flow no longer stalled')
    else this.#deps.log.warn('flow stalled', { reason, open: this.#deps.inFlight.count })
  }

  /** Called just before a scrape. */
  updateGauges(): void {
    const { metrics, inFlight, budget, clock, flowStatus, sinkWorkers } = this.#deps
    this.#countNewSteps()
    metrics.active.set(inFlight.count)
    metrics.inflight.set(budget.bytes)
    metrics.checkpointAge.set((clock.monotonicMs() - flowStatus.savedAtMs) / 1000)
    for (const sinkWorker of sinkWorkers.sinks) metrics.queue(sinkWorker.options.name).set(sinkWorker.queuedRecords)
  }

  /** Adds the counts of this thread's chain since the last call; worker threads report their own counts. */
  #countNewSteps(): void {
    const { counts } = this.#deps.chain
    const before = this.#countedSteps
    this.#countedSteps = counts.map((count) => ({ ...count }))
    this.#deps.flowStatus.countSteps(
      counts.map((count, at) => ({
        type: count.type,
        messagesIn: count.messagesIn - (before[at]?.messagesIn ?? 0),
        messagesOut: count.messagesOut - (before[at]?.messagesOut ?? 0),
        errors: count.errors - (before[at]?.errors ?? 0),
        keyCollisions: count.keyCollisions - (before[at]?.keyCollisions ?? 0),
      })),
    )
  }

  progress(about: { pod: string; version: string; isReady: boolean }): Progress {
    const { counts, checkpoint, inFlight, budget, source, redact, flowStatus, sinkWorkers, committer, failurePolicy } = this.#deps
    const { blocked } = flowStatus.blockReasons
    const applied = checkpoint?.appliedOneShots
    const facts = { outages: flowStatus.outages, frozenMessages: failurePolicy.frozenMessages, open: inFlight.count }
    return {
      ...(checkpoint?.savedCounters(counts.counters) ?? counts.counters),
      ...about,
      specHash: this.#options.specHash,
      position: redact(source.describe(committer.committedPositions)),
      lag: this.#lag,
      ...(blocked === undefined ? {} : { blocked: { ...blocked, message: redact(blocked.message) } }),
      flowing: toFlowingCondition({ ...about, ...facts, blocked, stall: this.#findStall(), redact }),
      exactlyOnce: toExactlyOnceCondition(sinkWorkers.sinks.map((sinkWorker) => sinkWorker.capabilities)),
      openMessages: inFlight.count,
      openBytes: budget.bytes,
      ...(applied?.resetId === undefined ? {} : { appliedReset: applied.resetId }),
      ...(applied?.rewindId === undefined ? {} : { appliedRewind: applied.rewindId }),
      sourceConditions: flowStatus.sourceConditions,
      notices: [...flowStatus.notices],
    }
  }
}
