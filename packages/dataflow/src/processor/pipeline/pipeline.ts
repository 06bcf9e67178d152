// Runs one flow: source → chain → sink workers → outcomes → commits. Connects the parts that `create-flow.ts` created, starts them, and
// ends them in order.
import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import { BatchNotWritten } from '../sinks/batch-writer.ts'
import type { FlowReport } from '../status/flow-report.ts'
import type { FlowStatus } from '../status/flow-status.ts'
import { createFlow, type FlowParts } from './create-flow.ts'
import { closeAll, ignoreUnwritten, rejectOnAbort, toFlowEnd, waitUntil } from './flow-end.ts'
import { applyOneShots } from './one-shots.ts'
import type { FlowEnd, PipelineDeps, PipelineOptions } from './pipeline-options.ts'
import { readSource } from './reader.ts'

export class Pipeline {
  readonly #deps: PipelineDeps
  readonly #options: PipelineOptions
  readonly #parts: FlowParts
  #isReading = false

  constructor(deps: PipelineDeps, options: PipelineOptions) {
    this.#deps = deps
    this.#options = options
    this.#parts = createFlow(deps, options)
  }

  get flowStatus(): FlowStatus {
    return this.#parts.flowStatus
  }

  get report(): FlowReport {
    return this.#parts.report
  }

  get inFlight(): FlowParts['inFlight'] {
    return this.#parts.inFlight
  }

  get budget(): FlowParts['budget'] {
    return this.#parts.budget
  }

  /** Never rejects. */
  async run(): Promise<FlowEnd> {
    const { signals, source, sinkWorkers, workers } = this.#parts
    const { stopping, ended, failure } = signals
    try {
      await Promise.race([this.#work(), rejectOnAbort(failure)])
      return { exitCode: 0, reason: stopping.signal.aborted ? 'asked to stop' : 'the source ended' }
    } catch (thrown) {
      return toFlowEnd(this.#deps, thrown)
    } finally {
      stopping.abort(new Error('the flow ended'))
      ended.abort(new Error('the flow ended'))
      sinkWorkers.stop()
      const closing = [source.close(), ...sinkWorkers.all.map((sinkWorker) => sinkWorker.close()), workers?.close() ?? Promise.resolve()]
      await closeAll(this.#deps.clock, closing)
    }
  }

  /** Starts an orderly end; `run` resolves when it is done. */
  stop(): void {
    const { stopping, ended } = this.#parts.signals
    if (stopping.signal.aborted) return
    stopping.abort(new BatchNotWritten('the processor is stopping'))
    const { drainMs } = this.#options.settings
    this.#deps.clock.setTimer(drainMs, () => ended.abort(new BatchNotWritten(`the processor did not drain within ${drainMs} ms`)))
  }

  async #work(): Promise<void> {
    const { log, checkpoint } = this.#deps
    const { flow, oneShots } = this.#options
    const { connections, sinkWorkers, source, committer, saver, report, stage, signals } = this.#parts
    const ended = signals.ended.signal
    await connections.connect()
    await applyOneShots({ log, checkpoint, source, sourceType: flow.source.type, sinkWorkers, saver, connections }, oneShots)
    if (source.group === undefined) await connections.takeOverPositions()
    const sinksDone = sinkWorkers.sinks.map((sinkWorker) => this.#failOnError(sinkWorker.run()))
    const { errors } = sinkWorkers
    const errorsDone = errors === undefined ? Promise.resolve() : this.#failOnError(errors.run())
    const background = [committer.run(ended), saver.run(ended), report.run(ended)]
    log.info('flow running', { source: flow.source.type, sink: flow.sink.type })
    await this.#read()
    await stage.drain().catch(ignoreUnwritten)
    for (const sinkWorker of sinkWorkers.sinks) sinkWorker.drain()
    await waitUntil(Promise.all(sinksDone), ended)
    errors?.drain()
    await waitUntil(errorsDone, ended)
    // After a failure, or when fenced, this process must not commit or save.
    if (!signals.failure.aborted) await this.#finish(background)
  }

  /** Commits and saves all outcomes; messages without an outcome stay uncommitted. */
  async #finish(background: readonly Promise<void>[]): Promise<void> {
    const { committer, signals, saver, inFlight, counts } = this.#parts
    const { log } = this.#deps
    await committer.commit().catch((error: unknown) => log.warn('last commit failed', { error: toError(error) }))
    signals.ended.abort(new BatchNotWritten('the flow ended'))
    await Promise.all(background)
    await saver.save()
    log.info('flow ended', { open: inFlight.count, ...counts.counters })
  }

  async #failOnError(work: Promise<void>): Promise<void> {
    await work.catch((error: unknown) => this.#parts.signals.fail(error))
  }

  async #read(): Promise<void> {
    const { flow, settings, isBounded } = this.#options
    const { source, budget, signals, intake, stage, flowStatus } = this.#parts
    const where = { operation: 'read', connector: flow.source.type, at: 'source' } as const
    const reading = readSource({
      source,
      budget,
      clock: this.#deps.clock,
      stopping: signals.stopping.signal,
      isBounded,
      retry: settings.connectRetry,
      take: (batch) => intake.take(batch, stage),
      onReading: () => {
        this.#isReading = true
        flowStatus.recordSuccess(where)
      },
      onFailure: (error) => flowStatus.recordFailure(where, error),
    }).catch(ignoreUnwritten)
    await waitUntil(reading, signals.ended.signal)
  }

  get isReady(): boolean {
    return this.#isReading && !this.#parts.signals.stopping.signal.aborted
  }

  /** Why the process should be restarted: messages are in flight and no stage made an attempt for long. An outage with retries counts
   *  as alive. */
  get notAlive(): string | null {
    const { inFlight, activity } = this.#parts
    if (inFlight.count === 0 || activity.idleMs < this.#options.settings.progressTimeoutMs) return null
    return `${inFlight.count} messages are open and no stage has tried anything for ${Math.round(activity.idleMs / 1000)} s`
  }

  progress(about: { readonly pod: string; readonly version: string }): Progress {
    return this.report.progress({ ...about, isReady: this.isReady })
  }
}
