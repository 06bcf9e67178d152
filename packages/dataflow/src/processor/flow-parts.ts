// The parts of one flow and who hears whom; made here, set to work by the pipeline.
import { Activity } from './activity.ts'
import { OpenBudget } from './budget.ts'
import type { ChainStage } from './chain-stage.ts'
import type { ChainWorkers } from './chain-workers.ts'
import { Committer } from './committer.ts'
import type { Partition, Source } from './connectors/connector.ts'
import { createCoverage } from './coverage.ts'
import { createExclusive } from './exclusive.ts'
import { makeStage } from './flow-chain.ts'
import { sinkContext, sourceContext } from './flow-contexts.ts'
import { FlowCounts } from './flow-counts.ts'
import { makeJudge, makeLetters } from './flow-judge.ts'
import { isMonotonic, planLanes } from './flow-lanes.ts'
import { FlowWatch } from './flow-watch.ts'
import { giveBack } from './hand-over.ts'
import { Intake } from './intake.ts'
import type { Judge } from './judge.ts'
import { LaneSet } from './lane-set.ts'
import type { LetterSender } from './letter-sender.ts'
import { openLane } from './open-lane.ts'
import { type EndingCounts, OpenMessages } from './open-messages.ts'
import { flowKey, type PipelineDeps, type PipelineOptions } from './pipeline-options.ts'
import { Saver } from './saver.ts'

export interface PartsHeard {
  /** Before the first message of these partitions. */
  assigned(partitions: readonly Partition[]): Promise<void>
  saveFailed(error: unknown): void
}

export class FlowParts {
  readonly #deps: PipelineDeps
  readonly #options: PipelineOptions
  /** Stop reading, end waits, try nothing again. */
  readonly stopping = new AbortController()
  /** What is not written by now stays unwritten. */
  readonly ended = new AbortController()
  readonly lanes = new LaneSet()
  readonly activity: Activity
  readonly counts: FlowCounts
  readonly budget: OpenBudget
  readonly open: OpenMessages
  readonly source: Source
  readonly watch: FlowWatch
  readonly stage: ChainStage
  readonly workers: ChainWorkers | undefined
  readonly intake: Intake
  readonly committer: Committer
  readonly saver: Saver
  readonly #judge: Judge
  readonly #letters: LetterSender | undefined
  /** Keeps commits of the source and transactions of a sink apart. */
  readonly #exclusively = createExclusive()

  constructor(deps: PipelineDeps, options: PipelineOptions, heard: PartsHeard) {
    const { flow, settings, specHash } = options
    const { clock } = deps
    const { lanes } = this
    const stopping = this.stopping.signal
    this.#deps = deps
    this.#options = options
    const activity = (this.activity = new Activity(clock))
    const counts = (this.counts = new FlowCounts(clock.now()))
    const budget = (this.budget = new OpenBudget(flow.maxInFlightBytes, settings.positionsMax))
    const moved = (by: number) => this.committer.moved(by)
    const open = (this.open = new OpenMessages({ budget, ended: (_of, ending) => this.watch.ended(ending), moved }))
    const source = (this.source = deps.openSource(
      sourceContext(deps, options, {
        stopping,
        watch: () => this.watch,
        assigned: (partitions) => heard.assigned(partitions),
        revoked: (partitions) => this.#revoked(partitions),
        stateChanged: () => this.saver.soon(),
      }),
    ))
    const committer = (this.committer = this.#makeCommitter())
    const watched = { flow, settings, specHash, lanes: lanes.sinks, committer }
    const watch = (this.watch = new FlowWatch({ ...deps, activity, counts, open, budget, source }, watched))
    this.#letters = makeLetters(deps, options, () => lanes.errors!)
    const judge = (this.#judge = makeJudge(deps, options, { stopping, open, watch, source, letters: this.#letters }))
    const bounds = { maxMessageBytes: flow.maxMessageBytes, isMonotonic: isMonotonic(flow) }
    const intake = (this.intake = new Intake({ clock, source, open, lanes, judge, watch, counts, activity, ...bounds }))
    this.#openLanes()
    const { stage, workers } = makeStage(deps, options, { activity, watch, intake, judge })
    this.stage = stage
    this.workers = workers
    this.saver = new Saver({
      clock,
      checkpoint: deps.checkpoint,
      intervalMs: flow.checkpointSaveIntervalMs,
      limitMs: settings.saveMs,
      state: () => source.state(),
      counters: () => counts.counters,
      saved: () => watch.saved(),
      failed: (error) => heard.saveFailed(error),
    })
  }

  #makeCommitter(): Committer {
    const { flow, settings } = this.#options
    const where = { operation: 'commit', connector: flow.source.type, at: 'source' } as const
    return new Committer(
      {
        clock: this.#deps.clock,
        source: this.source,
        open: this.open,
        exclusively: this.#exclusively,
        committed: (_positions, counts) => this.#committed(counts),
        failed: (error) => this.watch.failed(where, error),
      },
      settings,
    )
  }

  #openLanes(): void {
    const { lanes, source, activity, open, watch, committer } = this
    const stopping = this.stopping.signal
    const [judge, letters, exclusively] = [this.#judge, this.#letters, this.#exclusively]
    const coverage = createCoverage(open, this.ended.signal)
    const wrote = (records: number): void => void (this.counts.written += records)
    const parts = { clock: this.#deps.clock, stopping, source, activity, open, lanes, watch, committer, judge, letters, wrote }
    for (const plan of planLanes(this.#options.flow, flowKey(this.#options))) {
      const sink = this.#deps.openSink(plan, sinkContext(this.#deps, this.#options, plan, { stopping, source }))
      lanes.add(openLane({ ...parts, coverage, exclusively }, this.#options, plan, sink), plan.route?.id)
    }
  }

  #committed(counts: EndingCounts): void {
    this.counts.committed(counts, this.#deps.clock.now())
    this.activity.touch()
    this.watch.committed()
    if (this.#options.flow.checkpointSyncOnAck) this.saver.soon()
  }

  async #revoked(partitions: readonly Partition[]): Promise<void> {
    const parts = { open: this.open, lanes: this.lanes, committer: this.committer, judge: this.#judge, letters: this.#letters }
    const { revokeMs } = this.#options.settings
    await giveBack({ log: this.#deps.log, ...parts, revokeMs, ended: this.ended.signal }, partitions)
    this.saver.soon()
  }
}
