// What members own, by metadata watches over the kinds that people ask about: ReplicaSets, Pods, Jobs, EndpointSlices. Of each only
// name and owner are kept. Nothing is watched while no stack has a member that could own any of them.
import { type Informer, startInformer } from '@brokkr/kube/informer.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { controllerOf, groupOf, type KubeObject } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Child } from './nodes.ts'

export interface ChildrenDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  /** The only namespaces that may be looked into; null: the whole cluster. */
  readonly namespaces: () => readonly string[] | null
  readonly onChange: () => void
}
const kinds = [
  { apiVersion: 'apps/v1', kind: 'ReplicaSet' },
  { apiVersion: 'v1', kind: 'Pod' },
  { apiVersion: 'batch/v1', kind: 'Job' },
  { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' },
] as const

export class Children {
  readonly #deps: ChildrenDeps
  readonly #byOwner = new Map<string, Map<string, Child>>()
  #informers: Informer<Child | null>[] = []
  #watched: string | null = null

  constructor(deps: ChildrenDeps) {
    this.#deps = deps
  }

  of(uid: string): readonly Child[] {
    return [...(this.#byOwner.get(uid)?.values() ?? [])]
  }

  /** Watches where it should by now, or nowhere. */
  watch(isNeeded: boolean): void {
    const places = isNeeded ? (this.#deps.namespaces() ?? ['']) : []
    const wanted = places.join(' ')
    if (this.#watched === wanted || (!isNeeded && this.#watched === null)) return
    void this.stop()
    this.#watched = isNeeded ? wanted : null
    this.#informers = kinds.flatMap((kind) => places.map((namespace) => this.#start(kind, namespace)))
  }

  async stop(): Promise<void> {
    const informers = this.#informers
    this.#informers = []
    this.#byOwner.clear()
    await Promise.all(informers.map((informer) => informer.stop()))
  }

  #start(kind: (typeof kinds)[number], namespace: string): Informer<Child | null> {
    const informer = startInformer(this.#deps, { kind, namespace, metadataOnly: true, project: childOf })
    informer.onChange((change) => {
      if (change.type === 'updated' && change.before?.ownerUid === change.value?.ownerUid) return
      if (change.type === 'updated') this.#forget(change.before)
      if (change.type === 'deleted') this.#forget(change.value)
      else if (change.value) this.#keep(change.value)
      this.#deps.onChange()
    })
    return informer
  }

  #keep(child: Child): void {
    const siblings = this.#byOwner.get(child.ownerUid) ?? new Map<string, Child>()
    this.#byOwner.set(child.ownerUid, siblings.set(child.uid, child))
  }

  #forget(child: Child | null): void {
    const siblings = child && this.#byOwner.get(child.ownerUid)
    if (!siblings) return
    siblings.delete(child.uid)
    if (siblings.size === 0) this.#byOwner.delete(child.ownerUid)
  }
}

/** Null: nobody owns it, so it is no child of ours either. */
function childOf(object: KubeObject): Child | null {
  const owner = controllerOf(object) ?? object.metadata.ownerReferences?.[0]
  const { uid = '', namespace = '', name } = object.metadata
  return owner === undefined ? null : { uid, group: groupOf(object.apiVersion), kind: object.kind, namespace, name, ownerUid: owner.uid }
}
