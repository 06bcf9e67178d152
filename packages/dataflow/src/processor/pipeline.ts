// One flow at work: source → chain → lanes → endings → commits. The coordinator: it connects the parts, calls them in turn and ends them
// in order; what each of them decides stands in its own file, who hears whom in flow-parts.ts.
import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import { Fenced } from './checkpoint.ts'
import type { Partition } from './connectors/connector.ts'
import { FlowConnections } from './flow-connections.ts'
import { closeAll, endOf, ignoreUnwritten, inTime } from './flow-ending.ts'
import { FlowParts } from './flow-parts.ts'
import type { FlowWatch } from './flow-watch.ts'
import { carryOut } from './one-shots.ts'
import type { FlowEnd, PipelineDeps, PipelineOptions } from './pipeline-options.ts'
import { readSource } from './reader.ts'
import { Unwritten } from './writer.ts'

export class Pipeline {
  readonly #deps: PipelineDeps
  readonly #options: PipelineOptions
  readonly #parts: FlowParts
  readonly #connections: FlowConnections
  readonly #failure = Promise.withResolvers<never>()
  #isReading = false
  #hasFailed = false

  constructor(deps: PipelineDeps, options: PipelineOptions) {
    this.#deps = deps
    this.#options = options
    this.#failure.promise.catch(() => {})
    this.#parts = new FlowParts(deps, options, {
      assigned: (partitions) => this.#assigned(partitions),
      saveFailed: (error) => this.#saveFailed(error),
    })
    const { source, lanes, watch, stopping } = this.#parts
    const { flow, settings } = options
    const connecting = { clock: deps.clock, stopping: stopping.signal, watch, retry: settings.connectRetry }
    this.#connections = new FlowConnections({ ...connecting, source, sourceType: flow.source.type, lanes })
  }

  get watch(): FlowWatch {
    return this.#parts.watch
  }

  get open(): FlowParts['open'] {
    return this.#parts.open
  }

  get budget(): FlowParts['budget'] {
    return this.#parts.budget
  }

  /** Never rejects. */
  async run(): Promise<FlowEnd> {
    const { stopping, ended, source, lanes, workers } = this.#parts
    try {
      await Promise.race([this.#work(), this.#failure.promise])
      return { exitCode: 0, reason: stopping.signal.aborted ? 'asked to stop' : 'the source ended' }
    } catch (thrown) {
      return endOf(this.#deps, thrown)
    } finally {
      stopping.abort(new Error('the flow ended'))
      ended.abort(new Error('the flow ended'))
      lanes.stop()
      await closeAll(this.#deps.clock, [source.close(), ...lanes.all.map((lane) => lane.close()), workers?.close() ?? Promise.resolve()])
    }
  }

  /** Begins an orderly end; `run` resolves when it is done. */
  stop(): void {
    const { stopping, ended } = this.#parts
    if (stopping.signal.aborted) return
    stopping.abort(new Unwritten('the process stops'))
    this.#deps.clock.setTimer(this.#options.settings.drainMs, () => ended.abort(new Unwritten('the time to stop is over')))
  }

  async #work(): Promise<void> {
    const { lanes, source, committer, saver, watch, stage, ended } = this.#parts
    const { flow, oneShots } = this.#options
    await this.#connections.connect()
    const { log, checkpoint } = this.#deps
    await carryOut({ log, checkpoint, source, sourceType: flow.source.type, lanes, saver, connections: this.#connections }, oneShots)
    if (source.group === undefined) await this.#connections.takeOver()
    const running = lanes.sinks.map((lane) => this.#guarded(lane.run()))
    const { errors } = lanes
    const letters = errors === undefined ? Promise.resolve() : this.#guarded(errors.run())
    const background = [committer.run(ended.signal), saver.run(ended.signal), watch.run(ended.signal)]
    log.info('flow is running', { source: flow.source.type, sink: flow.sink.type })
    await this.#read()
    await stage.drain().catch(ignoreUnwritten)
    for (const lane of lanes.sinks) lane.drain()
    await inTime(Promise.all(running), ended.signal)
    errors?.drain()
    await inTime(letters, ended.signal)
    // A process that lost the flow, or its way, tells nobody how far it came.
    if (!this.#hasFailed) await this.#finish(background)
  }

  /** Commits and saves what has ended; what has not stays uncommitted. */
  async #finish(background: readonly Promise<void>[]): Promise<void> {
    const { committer, ended, saver, open, counts } = this.#parts
    await committer.commit().catch((error: unknown) => this.#deps.log.warn('the last commit failed', { error: toError(error) }))
    ended.abort(new Unwritten('the flow ended'))
    await Promise.all(background)
    await saver.save()
    this.#deps.log.info('flow has ended', { open: open.open, ...counts.counters })
  }

  async #guarded(work: Promise<void>): Promise<void> {
    await work.catch((error: unknown) => this.#fail(error))
  }

  #fail(error: unknown): void {
    this.#hasFailed = true
    this.#failure.reject(error)
    this.#parts.stopping.abort(toError(error))
    this.#parts.lanes.stop()
  }

  async #read(): Promise<void> {
    const { flow, settings, isBounded } = this.#options
    const { source, budget, stopping, ended, intake, stage, watch } = this.#parts
    const where = { operation: 'read', connector: flow.source.type, at: 'source' } as const
    const reading = readSource({
      source,
      budget,
      clock: this.#deps.clock,
      stopping: stopping.signal,
      isBounded,
      retry: settings.connectRetry,
      take: (batch) => intake.take(batch, stage),
      reading: () => {
        this.#isReading = true
        watch.works(where)
      },
      failed: (error) => watch.failed(where, error),
    }).catch(ignoreUnwritten)
    await inTime(reading, ended.signal)
  }

  #saveFailed(error: unknown): void {
    if (error instanceof Fenced) this.#fail(error)
    else this.watch.failed({ operation: 'save', connector: 'checkpoint', at: 'checkpoint' }, error)
  }

  async #assigned(partitions: readonly Partition[]): Promise<void> {
    this.#deps.log.info('partitions assigned', { partitions: partitions.map(String) })
    await this.#connections.takeOver(partitions)
  }

  get isReady(): boolean {
    return this.#isReading && !this.#parts.stopping.signal.aborted
  }

  /** Work is open and nothing has been tried for long; an outage that is being retried is alive. */
  get notAlive(): string | null {
    const { open, activity } = this.#parts
    if (open.open === 0 || activity.idleMs < this.#options.settings.progressTimeoutMs) return null
    return `${open.open} messages are open and no stage has tried anything for ${Math.round(activity.idleMs / 1000)} s`
  }

  progress(about: { readonly pod: string; readonly version: string }): Progress {
    return this.watch.progress({ ...about, isReady: this.isReady })
  }
}
