// Deletes a flow: processors are stopped, its replication slot is dropped if the flow asks for it, then its objects and our finalizer are
// removed. A database that cannot be reached holds the deletion only if the slot is to be dropped.
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { controllerOf, type Kube, type KubeObject, numberAt, type Outcome, refOf, selectorOf } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Log, silentLog } from '@brokkr/runtime/logging/log.ts'
import { removeSlot } from '../../connectors/cdc/index.ts'
import { checkpoint, metricsService, podMonitor, processorRights } from '../desired/children.ts'
import { readSpecSecret } from '../desired/secret.ts'
import { buildLabels, fieldManager, finalizer, flowKey, secretName } from '../names.ts'
import { normal, warning } from '../status/events.ts'
import { readStatus } from '../status/flow-status.ts'
import { workloadRef } from './apply-flow.ts'
import type { Children } from './children.ts'
import type { FlowWriter } from './flow-writer.ts'

export interface DeletionDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly children: Children
  readonly writer: FlowWriter
  readonly hasPodMonitors: boolean
  readonly allowLoopback: boolean
  readonly forget: (key: string) => void
}

const podsMs = 2_000
const slotRetryMs = 30_000
/** A pod that was evicted or has completed runs nothing, and no controller deletes it while its Deployment is scaled to zero. */
const livingPods = 'status.phase!=Succeeded,status.phase!=Failed'

export const isSlotDropped = ({ source }: Flow): boolean => source.type === 'postgresql-cdc' && source.config.dropSlotOnDelete

const isControlledBy = (object: KubeObject, owner: KubeObject): boolean => controllerOf(object)?.uid === owner.metadata.uid

export class Deletion {
  readonly #deps: DeletionDeps

  constructor(deps: DeletionDeps) {
    this.#deps = deps
  }

  async run(given: KubeObject, signal: AbortSignal): Promise<Outcome> {
    const { writer, children } = this.#deps
    if (!(given.metadata.finalizers ?? []).includes(finalizer)) {
      await writer.setFinalizer(given, false, signal)
      return 'done'
    }
    const object = await this.#note(given, 'being deleted', signal)
    if (await this.#hasPods(object, signal)) return { afterMs: podsMs }
    const problem = await this.#dropSlot(object, signal)
    if (problem !== undefined) {
      const message = `being deleted: ${problem}; make the database reachable, or set dropSlotOnDelete to false`
      if (readStatus(object).message !== message) writer.record(object, [warning('CleanupFailed', message)])
      await this.#note(object, message, signal)
      return { afterMs: slotRetryMs }
    }
    const refs = this.#listChildren(object)
    for (const ref of refs) await children.remove(object, ref, signal)
    await writer.setFinalizer(object, false, signal)
    writer.record(object, [normal('ResourcesDeleted', 'processors have ended and all objects of the flow are deleted')])
    this.#deps.forget(flowKey(object))
    return 'done'
  }

  #note(object: KubeObject, message: string, signal: AbortSignal): Promise<KubeObject> {
    return this.#deps.writer.writeStatus(object, { ...readStatus(object), phase: 'Stopped', message }, signal)
  }

  /** Read from the API server, not from the cache: a pod that was just created must not be missed. */
  async #hasPods(object: KubeObject, signal: AbortSignal): Promise<boolean> {
    const { kube } = this.#deps
    const ref = workloadRef(object)
    const workload = await kube.find(ref, { signal })
    if (workload !== undefined && isControlledBy(workload, object)) {
      const isCron = object.kind === 'DataFlowCron'
      const body = isCron ? { spec: { suspend: true } } : { spec: { replicas: 0 } }
      if (isCron || numberAt(workload, 'spec', 'replicas') !== 0)
        await kube.patch(
          ref,
          { type: 'merge', body: { metadata: { uid: workload.metadata.uid ?? '' }, ...body } },
          { fieldManager, signal },
        )
    }
    const labelSelector = selectorOf(buildLabels(object))
    const namespace = object.metadata.namespace
    if (object.kind === 'DataFlowCron') await this.#deleteJobs(object, { cronJob: workload, labelSelector }, signal)
    const options = { namespace, labelSelector, fieldSelector: livingPods, metadataOnly: true, signal }
    const pods = await kube.list({ apiVersion: 'v1', kind: 'Pod' }, options)
    return pods.items.length > 0
  }

  /** Those of the flow's own CronJob. Jobs of triggers are controlled by the Job of their run and are deleted with it. */
  async #deleteJobs(
    object: KubeObject,
    { cronJob, labelSelector }: { cronJob: KubeObject | undefined; labelSelector: string },
    signal: AbortSignal,
  ): Promise<void> {
    if (cronJob === undefined || !isControlledBy(cronJob, object)) return
    const kind = { apiVersion: 'batch/v1', kind: 'Job' }
    const jobs = await this.#deps.kube.list(kind, { namespace: object.metadata.namespace, labelSelector, metadataOnly: true, signal })
    for (const job of jobs.items.filter((each) => isControlledBy(each, cronJob))) {
      const { uid, deletionTimestamp } = job.metadata
      if (deletionTimestamp === undefined)
        await this.#deps.kube.delete({ ...refOf(job), ...kind }, { uid, propagation: 'Background', signal })
    }
  }

  /** From the resolved spec in our own Secret: the user may have deleted the referenced Secrets first. The text has no message of a driver,
   *  which could contain a part of the connection. */
  async #dropSlot(object: KubeObject, signal: AbortSignal): Promise<string | undefined> {
    const { kube, clock, allowLoopback } = this.#deps
    const { namespace = '', name } = object.metadata
    const secret = await kube.find({ apiVersion: 'v1', kind: 'Secret', namespace, name: secretName(object) }, { signal })
    // A Secret of another owner names a slot that is not this flow's.
    const { spec } = readSpecSecret(secret !== undefined && isControlledBy(secret, object) ? secret : undefined)
    const wish = normalize(object.spec, { patterns: re2, namespace, name }).flow
    const source = spec === undefined ? undefined : normalize(spec.spec, { kind: spec.kind, patterns: re2, namespace, name }).flow?.source
    if (source?.type !== 'postgresql-cdc' || !(wish === undefined ? source.config.dropSlotOnDelete : isSlotDropped(wish))) return undefined
    try {
      // No text of the connector is shown, so no secret of it has to be redacted.
      const addSecret = () => undefined
      await removeSlot(source.config, { flow: { namespace, name }, clock, log: silentLog, allowLoopback, signal, addSecret })
      return undefined
    } catch (error) {
      signal.throwIfAborted()
      const { code } = error as { code?: unknown }
      this.#deps.log.warn('replication slot not dropped', {
        dataflow_namespace: namespace,
        dataflow_name: name,
        code: typeof code === 'string' ? code : 'unknown',
      })
      return `replication slot ${source.config.slotName ?? ''} was not dropped`
    }
  }

  #listChildren(object: KubeObject) {
    const monitors = this.#deps.hasPodMonitors ? [refOf(podMonitor(object))] : []
    const rest = [metricsService(object), ...processorRights(object), checkpoint(object)].map(refOf)
    const secret = { apiVersion: 'v1', kind: 'Secret', namespace: object.metadata.namespace, name: secretName(object) }
    return [workloadRef(object), ...monitors, ...rest, secret]
  }
}
