// Writes status, finalizers and events of flows. Each write is bound to the version of the object that was judged; the result of a write
// replaces the cached object until the watch has delivered it.
import type { DataFlowStatus } from '@brokkr/contract/dataflow/status.ts'
import { isTerminating, type Kube, type KubeObject, type Recorder, refOf } from '@brokkr/kube'
import { fieldManager, finalizer, flowKey, foreignFinalizers, type Owner, parseFlowKey } from '../names.ts'
import type { FlowEvent } from '../status/events.ts'
import { type ClusterView, reduceObject } from '../watches.ts'
import { diffFields } from './merge-patch.ts'

export class FlowWriter {
  readonly #deps: { readonly kube: Kube; readonly view: ClusterView; readonly recorder: Recorder }
  /** Results of own writes, with the versions that they replaced. */
  readonly #written = new Map<string, { object: KubeObject; replaced: Set<string> }>()

  constructor(deps: { readonly kube: Kube; readonly view: ClusterView; readonly recorder: Recorder }) {
    this.#deps = deps
  }

  current(key: string): KubeObject | undefined {
    const { kind, namespace, name } = parseFlowKey(key)
    const seen = this.#deps.view.flow(kind, namespace, name)
    const written = this.#written.get(key)
    if (seen !== undefined && written?.replaced.has(seen.metadata.resourceVersion ?? '')) return written.object
    this.#written.delete(key)
    return seen
  }

  async writeStatus(object: KubeObject, status: DataFlowStatus, signal: AbortSignal): Promise<KubeObject> {
    const patch = diffFields(object.status ?? {}, status)
    if (patch === undefined) return object
    const body = { metadata: { resourceVersion: object.metadata.resourceVersion ?? '' }, status: patch }
    const next = await this.#deps.kube.patch(refOf(object), { type: 'merge', body }, { fieldManager, subresource: 'status', signal })
    return this.#note(object, next)
  }

  /** Adds or removes our finalizer; those of the public operator are always removed. */
  async setFinalizer(object: KubeObject, isWanted: boolean, signal: AbortSignal): Promise<KubeObject> {
    const before = object.metadata.finalizers ?? []
    const others = before.filter((each) => each !== finalizer && !foreignFinalizers.includes(each))
    // A finalizer cannot be added to an object that is being deleted.
    const isKept = isWanted && (before.includes(finalizer) || !isTerminating(object))
    const finalizers = isKept ? [...others, finalizer] : others
    if (finalizers.length === before.length && finalizers.every((each) => before.includes(each))) return object
    const body = { metadata: { resourceVersion: object.metadata.resourceVersion ?? '', finalizers } }
    return this.#note(object, await this.#deps.kube.patch(refOf(object), { type: 'merge', body }, { fieldManager, signal }))
  }

  record(object: Owner & { readonly apiVersion: string }, events: readonly FlowEvent[]): void {
    for (const event of events) this.#deps.recorder.record(object as KubeObject, event)
  }

  forget(key: string): void {
    this.#written.delete(key)
  }

  #note(before: KubeObject, next: KubeObject): KubeObject {
    const key = flowKey(before)
    const object = reduceObject(next)
    const replaced = this.#written.get(key)?.replaced ?? new Set<string>()
    replaced.add(before.metadata.resourceVersion ?? '')
    this.#written.set(key, { object, replaced })
    return object
  }
}
