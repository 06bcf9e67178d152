// One pass over a DataFlow: validate, resolve and apply, then judge and write the status. Idempotent.
import { printProblem } from '@brokkr/contract/dataflow/fields/problem.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { DataFlowStatus } from '@brokkr/contract/dataflow/status.ts'
import { isTerminating, type KubeObject, type Outcome } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { ProcessorEnvironment } from '../desired/pod.ts'
import type { SecretIndex } from '../flow-index.ts'
import { cutName, flowKey } from '../names.ts'
import { type FlowEvent, listTransitions, warning } from '../status/events.ts'
import { findNextChangeMs, judgeFlow, type PassFailure, readStatus } from '../status/flow-status.ts'
import { noMaintenance, readMaintenance } from '../status/maintenance.ts'
import type { Answers } from '../status/progress.ts'
import { countWanted, isPaused } from '../status/wanted-replicas.ts'
import { type Applied, type ApplyDeps, type ApplyInput, applyFlow, fingerprintOf, type Settled, workloadRef } from './apply-flow.ts'
import { type Deletion, isSlotDropped } from './deletion.ts'
import type { FlowWriter } from './flow-writer.ts'
import { readOneShots } from './one-shots.ts'
import type { Replays } from './replays.ts'
import { listSecretKeys } from './resolve.ts'
import { validateStored } from './validate-flow.ts'

export interface PassDeps extends ApplyDeps {
  readonly clock: Clock
  readonly writer: FlowWriter
  readonly deletion: Deletion
  readonly replays: Replays
  readonly secretIndex: SecretIndex
  readonly environment: () => ProcessorEnvironment
  readonly pods: (flow: string) => readonly KubeObject[]
  readonly progress: (flow: string) => Answers
}

export interface PassSettings {
  readonly pendingMs: number
  /** Whether a Secret is watched; others are read again from time to time. */
  readonly isWatched: (secretKey: string) => boolean
}

const resyncMs = 5 * 60_000
/** The end of an object that is not watched is looked for. */
export const endMs = 5_000

export class FlowPasses {
  readonly #deps: PassDeps
  readonly #settings: PassSettings
  readonly #settled = new Map<string, Settled & { readonly atMs: number }>()
  /** Id of the last notice of each processor that became an event. */
  readonly #noticed = new Map<string, ReadonlyMap<string, number>>()
  /** Invalid requests that became events. */
  readonly #refused = new Map<string, ReadonlySet<string>>()

  constructor(deps: PassDeps, settings: PassSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  forget(key: string): void {
    this.#deps.children.forget(this.#settled.get(key)?.refs ?? [])
    this.#settled.delete(key)
    this.#noticed.delete(key)
    this.#refused.delete(key)
    this.#deps.secretIndex.set(key, [])
  }

  async run(key: string, signal: AbortSignal): Promise<Outcome> {
    const { writer, clock } = this.#deps
    const object = writer.current(key)
    if (object === undefined) {
      this.forget(key)
      writer.forget(key)
      return 'done'
    }
    if (isTerminating(object)) return this.#deps.deletion.run(object, signal)
    const before = readStatus(object)
    const { flow, problems, isClipped } = validateStored(object)
    const maintenance = flow === undefined ? noMaintenance : readMaintenance(flow.maintenance, clock.now())
    const wanted = flow === undefined ? lastWanted(object, before) : countWanted(object, flow, maintenance)
    const ready = flow === undefined ? object : await this.#keepFinalizer(object, flow, wanted.count, signal)
    const applied =
      flow === undefined
        ? invalid(problems.map(printProblem))
        : await this.apply(ready, flow, { replicas: wanted.count, isSuspended: false, before }, signal)
    const nowMs = clock.now()
    const progress = this.#deps.progress(key)
    const replays = this.#deps.replays.list(key, ready.metadata.uid)
    const status = judgeFlow({
      object: ready,
      before,
      failure: applied.failure,
      wanted,
      specHash: applied.specHash,
      deployment: this.#deps.children.newest(workloadRef(ready)),
      pods: this.#deps.pods(key),
      answers: progress.answers,
      answersAtMs: progress.atMs,
      processedPerSecond: progress.processedPerSecond,
      maintenance,
      oneShots: applied.requests?.seen,
      nowMs,
    })
    const replayEvents = flow === undefined ? [] : await this.#deps.replays.run(ready, flow, applied.requests?.replay, replays, signal)
    await writer.writeStatus(ready, status, signal)
    const isNewGeneration = before.observedGeneration !== status.observedGeneration
    const clipped = isClipped && isNewGeneration ? [clippedEvent] : []
    writer.record(ready, [
      ...this.#listNotices(ready, progress.answers),
      ...replayEvents,
      ...listTransitions(before, status),
      ...clipped,
      ...this.listNewProblems(ready, applied),
    ])
    return this.#requeue(applied, status, findNextChangeMs(status, maintenance, nowMs))
  }

  /** The name of the event makes it unique, also after a restart of the operator. */
  #listNotices(object: KubeObject, answers: Answers['answers']): FlowEvent[] {
    const key = flowKey(object)
    const last = this.#noticed.get(key)
    this.#noticed.set(key, new Map(answers.map(({ pod, notices }) => [pod, notices.at(-1)?.id ?? last?.get(pod) ?? 0])))
    return answers.flatMap(({ pod, notices }) =>
      notices
        .filter(({ id }) => id > (last?.get(pod) ?? 0))
        .map(({ id, reason, message }) => ({ ...warning(reason, message), name: cutName(`${pod}.notice-${id}`) })),
    )
  }

  /** One event per invalid value, also after a restart of the operator: an annotation is seen with each pass, and does not change the generation. */
  listNewProblems(object: KubeObject, { requests }: Applied): FlowEvent[] {
    if (requests === undefined) return []
    const key = flowKey(object)
    const before = this.#refused.get(key)
    this.#refused.set(key, new Set(requests.problems.map(({ id }) => id)))
    return requests.problems
      .filter(({ id }) => before?.has(id) !== true)
      .map(({ annotation, reason, id }) => ({
        ...warning('RequestInvalid', `annotation ${annotation} ${reason}`),
        name: cutName(`${object.metadata.name}.request-${id}`),
      }))
  }

  /** A flow without pods needs no cleanup, unless its slot is to be dropped. */
  #keepFinalizer(object: KubeObject, flow: Flow, wanted: number, signal: AbortSignal): Promise<KubeObject> {
    const hasPods = this.#deps.pods(flowKey(object)).length > 0
    return this.#deps.writer.setFinalizer(object, wanted > 0 || hasPods || isSlotDropped(flow), signal)
  }

  /** Also for a DataFlowCron. */
  async apply(
    object: KubeObject,
    flow: Flow,
    state: { readonly replicas: number; readonly isSuspended: boolean; readonly before: Pick<DataFlowStatus, 'oneShots'> },
    signal: AbortSignal,
  ): Promise<Applied> {
    const { children, view, secretIndex, clock } = this.#deps
    const key = flowKey(object)
    const keys = listSecretKeys(flow, object.metadata.namespace ?? '')
    secretIndex.set(key, keys)
    const pods = this.#deps.pods(key)
    const record = (event: FlowEvent) => this.#deps.writer.record(object, [event])
    const { replicas, isSuspended } = state
    const seen = state.before.oneShots ?? {}
    const input: ApplyInput = { object, flow, environment: this.#deps.environment(), replicas, isSuspended, pods, seen, record }
    const settled = this.#settled.get(key)
    const isDue = keys.some((secret) => !this.#settings.isWatched(secret)) && clock.now() - (settled?.atMs ?? 0) >= resyncMs
    if (settled !== undefined && !isDue && settled.fingerprint === fingerprintOf(input, view) && children.areUntouched(settled.refs))
      return {
        failure: undefined,
        specHash: settled.specHash,
        requests: readOneShots(object, settled.requests.oneShots, seen),
        waitsFor: undefined,
      }
    const applied = await applyFlow(this.#deps, input, signal)
    if (applied.settled === undefined) this.#settled.delete(key)
    else this.#settled.set(key, { ...applied.settled, atMs: clock.now() })
    return applied
  }

  #requeue(applied: Applied, status: DataFlowStatus, nextChangeMs: number | undefined): Outcome {
    if (applied.waitsFor === 'end') return { afterMs: Math.min(endMs, this.#settings.pendingMs) }
    if (applied.waitsFor === 'place') return { afterMs: this.#settings.pendingMs }
    if (applied.failure?.at === 'applied' || status.phase === 'Pending') return { afterMs: this.#settings.pendingMs }
    return { afterMs: Math.min(nextChangeMs ?? resyncMs, resyncMs) }
  }
}

/** Result of a pass over an invalid flow. */
export const invalid = (problems: readonly string[]): Applied => {
  const failure: PassFailure = { at: 'valid', message: problems.join('; ') }
  return { failure, specHash: undefined, requests: undefined, waitsFor: undefined }
}

/** An invalid flow keeps the processors of its last valid spec. */
function lastWanted(object: KubeObject, before: DataFlowStatus): { count: number; stopped: string | undefined } {
  return isPaused(object) && before.replicas === 0
    ? { count: 0, stopped: 'paused by hand' }
    : { count: before.replicas ?? 0, stopped: undefined }
}

const clippedEvent = warning('ReplicasClipped', 'only kafka sources run with more than one replica: one processor is started')
