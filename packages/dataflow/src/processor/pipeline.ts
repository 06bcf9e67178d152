// One flow at work: source → chain → lanes → endings → commits. The coordinator: it opens the parts, calls them in turn and ends them in
// order; what each of them decides stands in its own file.
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { Activity } from './activity.ts'
import { OpenBudget } from './budget.ts'
import { buildChain } from './chain.ts'
import { ChainStage } from './chain-stage.ts'
import { type ChainWorkers, createChainWorkers } from './chain-workers.ts'
import { Fenced, type FlowCheckpoint } from './checkpoint.ts'
import { Committer } from './committer.ts'
import type { Partition, Rewind, Sink, SinkContext, Source, SourceContext } from './connectors/connector.ts'
import { createCoverage } from './coverage.ts'
import { createLetterMaker } from './dead-letter.ts'
import { createExclusive } from './exclusive.ts'
import { FlowCounts } from './flow-counts.ts'
import { isMonotonic, type LanePlan, planLanes, soleWriter } from './flow-lanes.ts'
import type { FlowSettings } from './flow-settings.ts'
import { FlowWatch } from './flow-watch.ts'
import { giveBack } from './hand-over.ts'
import { Intake } from './intake.ts'
import { Judge } from './judge.ts'
import { Lane } from './lane.ts'
import { LaneSet } from './lane-set.ts'
import { LetterSender } from './letter-sender.ts'
import type { FlowMetrics } from './metrics.ts'
import type { Item, OpenMessage } from './open-message.ts'
import { OpenMessages } from './open-messages.ts'
import { readSource } from './reader.ts'
import { Saver } from './saver.ts'
import { untilConnected } from './until-connected.ts'
import { FlowEnded, Unwritten } from './writer.ts'

export interface PipelineDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FlowMetrics
  openSource(context: SourceContext): Source
  openSink(plan: LanePlan, context: SinkContext): Sink
  /** Absent: nothing is kept between two processes. */
  readonly checkpoint: FlowCheckpoint | undefined
  readonly redact: (text: string) => string
}

export interface PipelineOptions {
  readonly flow: Flow
  readonly identity: { readonly namespace: string; readonly name: string }
  readonly specHash: string
  readonly oneShots: OneShots
  readonly isBounded: boolean
  readonly allowLoopback: boolean
  readonly settings: FlowSettings
}

/** Exit codes: 0 ended, 1 failed, 3 fenced. */
export interface FlowEnd {
  readonly exitCode: 0 | 1 | 3
  readonly reason: string
}

export class Pipeline {
  readonly #deps: PipelineDeps
  readonly #options: PipelineOptions
  /** Stop reading, end waits, try nothing again. */
  readonly #stopping = new AbortController()
  /** What is not written by now stays unwritten. */
  readonly #ended = new AbortController()
  readonly #failure = Promise.withResolvers<never>()
  readonly #lanes = new LaneSet()
  readonly watch: FlowWatch
  readonly budget: OpenBudget
  readonly open: OpenMessages
  readonly #activity: Activity
  readonly #counts: FlowCounts
  readonly #source: Source
  readonly #committer: Committer
  readonly #judge: Judge
  readonly #letters: LetterSender | undefined
  readonly #intake: Intake
  readonly #stage: ChainStage
  readonly #workers: ChainWorkers | undefined
  readonly #saver: Saver
  #isReading = false
  #hasFailed = false

  constructor(deps: PipelineDeps, options: PipelineOptions) {
    const { flow, settings, identity } = options
    this.#deps = deps
    this.#options = options
    this.#failure.promise.catch(() => {})
    this.#activity = new Activity(deps.clock)
    this.#counts = new FlowCounts(deps.clock.now())
    this.budget = new OpenBudget(flow.maxInFlightBytes, settings.positionsMax)
    this.open = new OpenMessages({
      budget: this.budget,
      ended: (_of, ending) => this.watch.ended(ending),
      moved: (by) => this.#committer.moved(by),
    })
    const exclusively = createExclusive()
    this.#source = deps.openSource(this.#sourceContext())
    this.#committer = new Committer(
      {
        clock: deps.clock,
        source: this.#source,
        open: this.open,
        exclusively,
        committed: (_positions, counts) => this.#committed(counts),
        failed: (error) => this.watch.failed({ operation: 'commit', connector: flow.source.type, at: 'source' }, error),
      },
      settings,
    )
    const key = `${identity.namespace}/${identity.name}`
    const maker = createLetterMaker({
      flow: key,
      specHash: options.specHash,
      payload: flow.errors?.payload ?? 'full',
      transformations: flow.transformations,
      redact: (text) => deps.redact(text),
    })
    this.#letters = flow.errors === undefined ? undefined : new LetterSender({ clock: deps.clock, maker, lane: () => this.#lanes.errors! })
    this.watch = new FlowWatch(
      { ...deps, activity: this.#activity, counts: this.#counts, open: this.open, budget: this.budget, source: this.#source },
      { flow, settings, specHash: options.specHash, lanes: this.#lanes.sinks, committer: this.#committer },
    )
    this.#judge = new Judge({
      clock: deps.clock,
      stopping: this.#stopping.signal,
      open: this.open,
      holds: this.watch.holds,
      letters: this.#letters,
      errors: flow.errors,
      blockedEveryMs: settings.blockedEveryMs,
      skip: options.oneShots.skip,
      describe: (of) => this.#describe(of),
      lettered: (stage, type) => this.watch.lettered(stage, type),
      dropped: (reason) => this.watch.dropped(reason, 1),
    })
    this.watch.judge = this.#judge
    this.#intake = new Intake({
      clock: deps.clock,
      source: this.#source,
      open: this.open,
      lanes: this.#lanes,
      judge: this.#judge,
      watch: this.watch,
      counts: this.#counts,
      activity: this.#activity,
      maxMessageBytes: flow.maxMessageBytes,
      isMonotonic: isMonotonic(flow),
    })
    const coverage = createCoverage(this.open, this.#ended.signal)
    for (const plan of planLanes(flow, key)) this.#addLane(plan, { exclusively, coverage })
    const chain = buildChain(flow.transformations, { patterns: re2 })
    this.watch.chain = chain
    this.#workers =
      flow.transformWorkers > 1
        ? createChainWorkers(
            { clock: deps.clock, counted: (counts) => this.watch.stepsRan(counts) },
            { transformations: flow.transformations, workers: Math.min(64, flow.transformWorkers) },
          )
        : undefined
    this.#stage = new ChainStage({
      clock: deps.clock,
      chain,
      workers: this.#workers,
      emit: (of, records, nowMs) => this.#intake.emit(of, records, nowMs),
      drop: (of, reason) => this.#intake.drop(of, reason),
      fail: (of, failure) => {
        this.#activity.touch()
        return this.#judge.message(of, failure, flow.sink.type)
      },
      released: (of) => this.#judge.released(of),
      bug: (error) => deps.log.error('a transform failed unexpectedly', { error }),
      kick: () => this.#intake.kick(),
      took: (messages, ms) => this.watch.transformed(messages, ms),
    })
    this.#saver = new Saver({
      clock: deps.clock,
      checkpoint: deps.checkpoint,
      intervalMs: flow.checkpointSaveIntervalMs,
      limitMs: settings.saveMs,
      state: () => this.#source.state(),
      counters: () => this.#counts.counters,
      saved: () => this.watch.saved(),
      failed: (error) => this.#saveFailed(error),
    })
  }

  /** Never rejects. */
  async run(): Promise<FlowEnd> {
    try {
      await Promise.race([this.#work(), this.#failure.promise])
      return { exitCode: 0, reason: this.#stopping.signal.aborted ? 'asked to stop' : 'the source ended' }
    } catch (thrown) {
      return this.#endOf(thrown)
    } finally {
      this.#stopping.abort(new Error('the flow ended'))
      this.#ended.abort(new Error('the flow ended'))
      this.#lanes.stop()
      await this.#close()
    }
  }

  /** Begins an orderly end; `run` resolves when it is done. */
  stop(): void {
    if (this.#stopping.signal.aborted) return
    this.#stopping.abort(new Unwritten('the process stops'))
    this.#deps.clock.setTimer(this.#options.settings.drainMs, () => this.#ended.abort(new Unwritten('the time to stop is over')))
  }

  async #work(): Promise<void> {
    await this.#connect()
    await this.#carryOut()
    if (this.#source.group === undefined) await this.#takeOver()
    const running = this.#lanes.sinks.map((lane) => this.#guarded(lane.run()))
    const { errors } = this.#lanes
    const letters = errors === undefined ? Promise.resolve() : this.#guarded(errors.run())
    const background = [this.#committer.run(this.#ended.signal), this.#saver.run(this.#ended.signal), this.watch.run(this.#ended.signal)]
    this.#deps.log.info('flow is running', { source: this.#options.flow.source.type, sink: this.#options.flow.sink.type })
    await this.#read()
    await this.#stage.drain().catch(ignoreUnwritten)
    for (const lane of this.#lanes.sinks) lane.drain()
    await this.#inTime(Promise.all(running))
    errors?.drain()
    await this.#inTime(letters)
    // A process that lost the flow, or its way, tells nobody how far it came.
    if (!this.#hasFailed) await this.#finish(background)
  }

  /** Commits and saves what has ended; what has not stays uncommitted. */
  async #finish(background: readonly Promise<void>[]): Promise<void> {
    await this.#committer.commit().catch((error: unknown) => this.#deps.log.warn('the last commit failed', { error: toError(error) }))
    this.#ended.abort(new Unwritten('the flow ended'))
    await Promise.all(background)
    await this.#saver.save()
    this.#deps.log.info('flow has ended', { open: this.open.open, ...this.#counts.counters })
  }

  async #inTime(work: Promise<unknown>): Promise<void> {
    const over = Promise.withResolvers<void>()
    const end = () => over.resolve()
    this.#ended.signal.addEventListener('abort', end, { once: true })
    await Promise.race([work, over.promise])
    this.#ended.signal.removeEventListener('abort', end)
  }

  async #guarded(work: Promise<void>): Promise<void> {
    await work.catch((error: unknown) => this.#fail(error))
  }

  #fail(error: unknown): void {
    this.#hasFailed = true
    this.#failure.reject(error)
    this.#stopping.abort(toError(error))
    this.#lanes.stop()
  }

  #endOf(thrown: unknown): FlowEnd {
    if (thrown instanceof Unwritten) return { exitCode: 0, reason: 'asked to stop' }
    const isFenced = thrown instanceof Fenced || (thrown instanceof FlowEnded && thrown.why === 'fenced')
    const reason = this.#deps.redact(errorText(thrown))
    this.#deps.log.error(isFenced ? 'another processor has taken the flow' : 'the flow failed', { error: toError(thrown) })
    return { exitCode: isFenced ? 3 : 1, reason }
  }

  async #connect(): Promise<void> {
    const { flow } = this.#options
    const parts = [
      { connect: () => this.#source.connect(), type: flow.source.type, at: 'source' },
      ...this.#lanes.all.map((lane) => ({ connect: () => lane.connect(), type: lane.options.sinkType, at: lane.options.name })),
    ]
    await Promise.all(parts.map((part) => this.#patiently(part)))
  }

  /** For ever: what is refused is shown as blocked until somebody puts it right. */
  #patiently(part: Parameters<typeof untilConnected>[1]): Promise<void> {
    const { settings } = this.#options
    return untilConnected(
      { clock: this.#deps.clock, stopping: this.#stopping.signal, watch: this.watch, retry: settings.connectRetry },
      part,
    )
  }

  /** Orders that are carried out once per id: by the first process that finds them undone. */
  async #carryOut(): Promise<void> {
    const { resetId, rewind } = this.#options.oneShots
    const applied = this.#deps.checkpoint?.applied
    const isReset = resetId !== undefined && resetId !== applied?.resetId
    const isRewound = rewind !== undefined && rewind.id !== applied?.rewindId
    if (!isReset && !isRewound) return
    const { source } = this.#options.flow
    const part = { type: source.type, at: 'source' }
    for (const lane of this.#lanes.sinks)
      await this.#patiently({ connect: () => lane.forgetPositions(), type: lane.options.sinkType, at: lane.options.name })
    if (isReset) await this.#patiently({ ...part, connect: () => this.#source.rewind('start') })
    if (isRewound) await this.#patiently({ ...part, connect: () => this.#source.rewind(rewind.to as Rewind) })
    this.#saver.orders = { ...(isReset && { resetId }), ...(isRewound && { rewindId: rewind.id }) }
    await this.#saver.save()
    this.#deps.log.info('positions were set back', { ...(isReset && { reset: resetId }), ...(isRewound && { rewind: rewind.id }) })
  }

  async #takeOver(partitions?: readonly Partition[]): Promise<void> {
    for (const lane of this.#lanes.sinks)
      await this.#patiently({ connect: () => lane.takeOver(partitions), type: lane.options.sinkType, at: lane.options.name })
  }

  async #read(): Promise<void> {
    const { flow, settings, isBounded } = this.#options
    const reading = readSource({
      source: this.#source,
      budget: this.budget,
      clock: this.#deps.clock,
      stopping: this.#stopping.signal,
      isBounded,
      retry: settings.connectRetry,
      take: (batch) => this.#intake.take(batch, this.#stage),
      reading: () => {
        this.#isReading = true
        this.watch.works({ operation: 'read', connector: flow.source.type, at: 'source' })
      },
      failed: (error) => this.watch.failed({ operation: 'read', connector: flow.source.type, at: 'source' }, error),
    }).catch(ignoreUnwritten)
    await this.#inTime(reading)
  }

  #addLane(plan: LanePlan, shared: Pick<ConstructorParameters<typeof Lane>[0], 'exclusively' | 'coverage'>): void {
    const { flow, settings } = this.#options
    const lane = new Lane(
      {
        ...shared,
        sink: this.#deps.openSink(plan, this.#sinkContext(plan)),
        clock: this.#deps.clock,
        stopping: this.#stopping.signal,
        compare: (left, right) => this.#source.compare(left, right),
        attempt: () => this.#activity.touch(),
        written: (of, items, tookMs) => {
          this.watch.written(of, items, tookMs)
          this.#written(of, items)
        },
        writtenBefore: (of, item) => {
          this.watch.avoided(of)
          this.open.end(item.from, 'written-before')
        },
        failed: (of, error) => this.watch.failed({ operation: 'write', connector: of.options.sinkType, at: of.options.name }, error),
        givesUp: (of) => this.#givesUp(of, plan),
        guilty: (of, item, error, attempts) => this.#guilty(of, item, error, attempts),
        released: (item) => this.#judge.released(item),
        flushed: () => (flow.ackGranularity === 'message' ? this.#committer.commit() : Promise.resolve()),
      },
      {
        name: plan.name,
        role: plan.role,
        sinkType: plan.spec.type,
        bounds: plan.bounds,
        skips: isMonotonic(flow) && plan.role !== 'errors',
        queueMax: plan.bounds.records + flow.channelBufferSize,
        writer: {
          retry: settings.sinkRetry,
          retriesMax: settings.sinkRetriesMax,
          flushMs: settings.flushMs,
          stoppingFlushMs: settings.drainMs,
        },
      },
    )
    this.#lanes.add(lane, plan.route?.id)
  }

  #written(lane: Lane, items: readonly Item[]): void {
    if (lane === this.#lanes.errors) return this.#letters?.written(items)
    this.#counts.written += items.length
    this.#judge.written()
    for (const { from } of items) this.open.end(from, 'written')
  }

  async #guilty(...[lane, item, error, attempts]: Parameters<Judge['record']>): ReturnType<Judge['record']> {
    if (lane !== this.#lanes.errors) return this.#judge.record(lane, item, error, attempts)
    if (this.#letters!.shrink(item)) return 'again'
    return this.watch.lettersRefused(item, error, this.#stopping.signal)
  }

  #givesUp(lane: Lane, { route }: LanePlan): boolean {
    if (route?.onUnavailable !== 'deadLetter' || this.#lanes.errors === undefined || lane.failingSinceMs === undefined) return false
    return this.#deps.clock.monotonicMs() - lane.failingSinceMs >= route.afterMs
  }

  #committed(counts: Parameters<FlowCounts['committed']>[0]): void {
    this.#counts.committed(counts, this.#deps.clock.now())
    this.#activity.touch()
    this.watch.committed()
    if (this.#options.flow.checkpointSyncOnAck) this.#saver.soon()
  }

  #saveFailed(error: unknown): void {
    if (error instanceof Fenced) this.#fail(error)
    else this.watch.failed({ operation: 'save', connector: 'checkpoint', at: 'checkpoint' }, error)
  }

  async #assigned(partitions: readonly Partition[]): Promise<void> {
    this.#deps.log.info('partitions assigned', { partitions: partitions.map(String) })
    await this.#takeOver(partitions)
  }

  async #revoked(partitions: readonly Partition[]): Promise<void> {
    const { revokeMs } = this.#options.settings
    const { log } = this.#deps
    const parts = { open: this.open, lanes: this.#lanes, committer: this.#committer, judge: this.#judge, letters: this.#letters }
    await giveBack({ log, ...parts, revokeMs, ended: this.#ended.signal }, partitions)
    this.#saver.soon()
  }

  #describe(of: OpenMessage): string {
    return this.#source.describe(new Map([[of.tracker.partition, of.position]]))
  }

  get isReady(): boolean {
    return this.#isReading && !this.#stopping.signal.aborted
  }

  /** Work is open and nothing has been tried for long; an outage that is being retried is alive. */
  get notAlive(): string | null {
    const { progressTimeoutMs } = this.#options.settings
    if (this.open.open === 0 || this.#activity.idleMs < progressTimeoutMs) return null
    return `${this.open.open} messages are open and no stage has tried anything for ${Math.round(this.#activity.idleMs / 1000)} s`
  }

  progress(about: { readonly pod: string; readonly version: string }): Progress {
    return this.watch.progress({ ...about, isReady: this.isReady })
  }

  #sourceContext(): SourceContext {
    const { flow, isBounded } = this.#options
    const stored: JsonObject | undefined = this.#deps.checkpoint?.state
    return {
      ...this.#context(flow.source.type),
      stored,
      isBounded,
      replicas: flow.replicas,
      assigned: (partitions) => this.#assigned(partitions),
      revoked: (partitions) => this.#revoked(partitions),
      stateChanged: () => this.#saver.soon(),
      notice: (reason, message) => this.watch.notice(reason, message),
      dropped: (reason, count) => this.watch.dropped(reason, count),
    }
  }

  #sinkContext({ role, positionKey, spec, name }: LanePlan): SinkContext {
    return {
      ...this.#context(spec.type),
      role,
      positionKey,
      source: this.#source,
      epoch: this.#deps.checkpoint?.epoch ?? 0,
      soleWriter: soleWriter(this.#options.flow, positionKey),
      conflictsIgnored: (count) => this.#deps.metrics.conflicts(spec.type, name).inc(count),
    }
  }

  #context(type: string) {
    return {
      flow: this.#options.identity,
      clock: this.#deps.clock,
      log: this.#deps.log.child({ connector_type: type }),
      allowLoopback: this.#options.allowLoopback,
      signal: this.#stopping.signal,
    }
  }

  async #close(): Promise<void> {
    const closing = [this.#source.close(), ...this.#lanes.all.map((lane) => lane.close()), this.#workers?.close() ?? Promise.resolve()]
    const over = Promise.withResolvers<void>()
    const timer = this.#deps.clock.setTimer(10_000, () => over.resolve())
    await Promise.race([Promise.allSettled(closing), over.promise])
    timer.cancel()
  }
}

const ignoreUnwritten = (error: unknown): void => {
  if (!(error instanceof Unwritten)) throw error
}
