// One pass over a DataFlowCron: validate, resolve and apply its CronJob, continue its runs, then judge and write the status. Idempotent.
import { progressKey, SavedProgress } from '@brokkr/contract/dataflow/checkpoint.ts'
import { printProblem } from '@brokkr/contract/dataflow/fields/problem.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { controllerOf, isTerminating, type KubeObject, type Outcome, refOf, textAt } from '@brokkr/kube'
import { manualJob, triggerJob } from '../desired/cron-job.ts'
import { checkpointName, fieldManager, label } from '../names.ts'
import { type CronRun, listRuns, resultAnnotation } from '../status/cron-runs.ts'
import { judgeCron, readCronStatus } from '../status/cron-status.ts'
import { type FlowEvent, listTransitions, normal, warning } from '../status/events.ts'
import { findNextChangeMs } from '../status/flow-status.ts'
import { noMaintenance, readMaintenance } from '../status/maintenance.ts'
import { countWanted } from '../status/wanted-replicas.ts'
import { type Applied, workloadRef } from './apply-flow.ts'
import { findRefusal } from './children.ts'
import { endMs, type FlowPasses, invalid, type PassDeps, type PassSettings } from './flow-pass.ts'
import { validateStored } from './validate-flow.ts'

const resyncMs = 5 * 60_000

export class CronPasses {
  readonly #deps: PassDeps & { readonly jobs: (flow: string) => readonly KubeObject[] }
  readonly #settings: PassSettings
  readonly #flows: FlowPasses

  constructor(deps: PassDeps & { readonly jobs: (flow: string) => readonly KubeObject[] }, settings: PassSettings, flows: FlowPasses) {
    this.#deps = deps
    this.#settings = settings
    this.#flows = flows
  }

  async run(key: string, signal: AbortSignal): Promise<Outcome> {
    const { writer, clock } = this.#deps
    const object = writer.current(key)
    if (object === undefined) {
      this.#flows.forget(key)
      writer.forget(key)
      return 'done'
    }
    if (isTerminating(object)) return this.#deps.deletion.run(object, signal)
    const before = readCronStatus(object)
    const { flow, problems } = validateStored(object)
    const maintenance = flow === undefined ? noMaintenance : readMaintenance(flow.maintenance, clock.now())
    const stopped = flow === undefined ? undefined : findStopReason(flow, countWanted(object, flow, maintenance).stopped)
    const ready = flow === undefined ? object : await writer.setFinalizer(object, true, signal)
    const applied =
      flow === undefined
        ? invalid(problems.map(printProblem))
        : await this.#flows.apply(ready, flow, { replicas: 1, isSuspended: stopped !== undefined, before }, signal)
    const cronJob = this.#findCronJob(ready)
    const found = listRuns(this.#deps.jobs(key), flow?.cron?.triggers.length ?? 0, cronJob?.metadata.uid)
    const continued = flow === undefined ? { runs: found, events: [] } : await this.#continueRuns(ready, flow, found, signal)
    const { runs } = continued
    const started = flow === undefined ? [] : await this.#startRun(ready, flow, { applied, runs }, signal)
    const hasEnded = runs.some((run) => run.isNew && run.endedAt !== undefined)
    const status = judgeCron({
      object: ready,
      before,
      failure: applied.failure,
      migrating: applied.migrating,
      stopped,
      specHash: applied.specHash,
      cronJob,
      runs,
      counters: hasEnded ? await this.#readCounters(ready, signal) : undefined,
      maintenance,
      oneShots: applied.requests?.seen,
      nowMs: clock.now(),
    })
    await writer.writeStatus(ready, status, signal)
    await this.#noteResults(runs, signal)
    writer.record(ready, [
      ...continued.events,
      ...started,
      ...listTransitions(before, status),
      ...this.#flows.listNewProblems(ready, applied),
    ])
    if (applied.waitsFor !== undefined) return { afterMs: Math.min(endMs, this.#settings.pendingMs) }
    const isRefused = runs.some(({ refusal }) => refusal !== undefined)
    if (applied.failure?.at === 'applied' || isRefused) return { afterMs: this.#settings.pendingMs }
    return { afterMs: Math.min(findNextChangeMs(status, maintenance, clock.now()) ?? resyncMs, resyncMs) }
  }

  /** Not one of another owner, whatever its name and labels. */
  #findCronJob(object: KubeObject): KubeObject | undefined {
    const cronJob = this.#deps.children.newest(workloadRef(object))
    return cronJob !== undefined && controllerOf(cronJob)?.uid === object.metadata.uid ? cronJob : undefined
  }

  async #continueRuns(object: KubeObject, flow: Flow, runs: readonly CronRun[], signal: AbortSignal): Promise<Continued> {
    const events: FlowEvent[] = []
    const refusals = new Map<CronRun, string>()
    for (const run of runs) {
      if (run.job.metadata.labels?.[label.runId] === undefined) {
        const body = { metadata: { labels: { [label.runId]: run.id } } }
        await this.#deps.kube.patch(refOf(run.job), { type: 'merge', body }, { fieldManager, signal })
      }
      if (run.isNew && run.phase === 'Failed')
        events.push({ ...warning('RunFailed', run.message), name: `${run.job.metadata.name}.run-failed` })
      if (run.startTrigger === undefined) continue
      const job = triggerJob(object, flow, { run: run.job, runId: run.id, index: run.startTrigger })
      const refusal = await findRefusal(() => this.#deps.children.start(run.job, job, signal))
      if (refusal !== undefined) {
        events.push({ ...warning('TriggerRefused', describeRefusal(run, refusal)), name: `${job.metadata.name}.refused` })
        refusals.set(run, refusal)
        continue
      }
      events.push({
        ...normal('TriggerStarted', `run ${run.id}: trigger ${run.startTrigger} runs as Job ${job.metadata.name}`),
        name: `${job.metadata.name}.started`,
      })
    }
    const continued = runs.map((run) => {
      const refusal = refusals.get(run)
      return refusal === undefined ? run : { ...run, refusal, message: describeRefusal(run, refusal) }
    })
    return { runs: continued, events }
  }

  /** A run by hand: refused while another one is active under Forbid. */
  async #startRun(
    object: KubeObject,
    flow: Flow,
    at: { applied: Applied; runs: readonly CronRun[] },
    signal: AbortSignal,
  ): Promise<FlowEvent[]> {
    const id = at.applied.requests?.run
    if (id === undefined) return []
    const isActive = at.runs.some(({ phase }) => phase === 'RunningProcessor' || phase === 'RunningTriggers')
    if (isActive && flow.cron?.concurrencyPolicy === 'Forbid')
      return [warning('RunRefused', `run ${id}: another run is active, and concurrencyPolicy is Forbid`)]
    const cronJob = await this.#deps.kube.get(workloadRef(object), { signal })
    const job = manualJob(object, flow, { environment: this.#deps.environment(), cronJob, id })
    const refusal = await findRefusal(() => this.#deps.children.start(cronJob, job, signal))
    if (refusal !== undefined) return [warning('RunRefused', `run ${id}: ${refusal}`)]
    return [{ ...normal('RunStarted', `run ${id} was started by hand as Job ${job.metadata.name}`), name: `${job.metadata.name}.started` }]
  }

  /** After the status: a result that is noted is not judged again. */
  async #noteResults(runs: readonly CronRun[], signal: AbortSignal): Promise<void> {
    for (const { job, isNew, phase } of runs) {
      if (!isNew || (phase !== 'Completed' && phase !== 'Failed')) continue
      const body = { metadata: { annotations: { [resultAnnotation]: phase } } }
      await this.#deps.kube.patch(refOf(job), { type: 'merge', body }, { fieldManager, signal })
    }
  }

  async #readCounters(object: KubeObject, signal: AbortSignal) {
    const ref = { apiVersion: 'v1', kind: 'ConfigMap', namespace: object.metadata.namespace, name: checkpointName(object) }
    const text = textAt(await this.#deps.kube.find(ref, { signal }), 'data', progressKey)
    try {
      return text === undefined ? undefined : SavedProgress.parse(JSON.parse(text)).counters
    } catch {
      return undefined
    }
  }
}

interface Continued {
  readonly runs: readonly CronRun[]
  readonly events: readonly FlowEvent[]
}

const describeRefusal = ({ id, index }: CronRun, refusal: string): string => `run ${id}: trigger ${index} cannot start: ${refusal}`

const findStopReason = (flow: Flow, stopped: string | undefined): string | undefined =>
  stopped ?? (flow.cron?.suspend === true ? 'suspended' : undefined)
