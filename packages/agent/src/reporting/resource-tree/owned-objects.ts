// Objects owned by members, from metadata watches of ReplicaSets, Pods, Jobs and EndpointSlices. Keeps name and owner only. Watches only
// namespaces with members that can own such objects, and only while the broker accepts the reports.

import { controllerOf, groupOf, type Informer, type Kube, type KubeObject, startInformer } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { OwnedObject } from './resource-tree.ts'

export interface OwnedObjectsDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  /** The only namespaces that may be read; null: the whole cluster. */
  readonly namespaces: () => readonly string[] | null
}
const kinds = [
  { apiVersion: 'apps/v1', kind: 'ReplicaSet' },
  { apiVersion: 'v1', kind: 'Pod' },
  { apiVersion: 'batch/v1', kind: 'Job' },
  { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' },
] as const

export class OwnedObjects {
  readonly #deps: OwnedObjectsDeps
  readonly #byOwner = new Map<string, Map<string, OwnedObject>>()
  readonly #listeners = new Set<() => void>()
  #informers: Informer<OwnedObject>[] = []
  #watchKey = '[]'

  constructor(deps: OwnedObjectsDeps) {
    this.#deps = deps
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  listOwned(uid: string): readonly OwnedObject[] {
    return [...(this.#byOwner.get(uid)?.values() ?? [])]
  }

  /** Watches the namespaces of these owners from now on; empty: none. */
  watch(ownerNamespaces: ReadonlySet<string>): void {
    const namespaces = selectNamespaces(ownerNamespaces, this.#deps.namespaces())
    const watchKey = JSON.stringify(namespaces)
    if (this.#watchKey === watchKey) return
    void this.stop()
    this.#watchKey = watchKey
    this.#informers = kinds.flatMap((kind) => namespaces.map((namespace) => this.#start(kind, namespace)))
  }

  async stop(): Promise<void> {
    const informers = this.#informers
    this.#informers = []
    this.#watchKey = '[]'
    this.#byOwner.clear()
    await Promise.all(informers.map((informer) => informer.stop()))
  }

  #start(kind: (typeof kinds)[number], namespace: string): Informer<OwnedObject> {
    const informer = startInformer(this.#deps, { kind, namespace, metadataOnly: true, project: toOwnedObject, isKept: hasOwner })
    informer.onChange((change) => {
      if (change.type === 'updated' && change.before.ownerUid === change.value.ownerUid) return
      if (change.type === 'updated') this.#forget(change.before)
      if (change.type === 'deleted') this.#forget(change.value)
      else this.#keep(change.value)
      for (const listener of this.#listeners) listener()
    })
    return informer
  }

  #keep(owned: OwnedObject): void {
    const siblings = this.#byOwner.get(owned.ownerUid) ?? new Map<string, OwnedObject>()
    this.#byOwner.set(owned.ownerUid, siblings.set(owned.uid, owned))
  }

  #forget(owned: OwnedObject): void {
    const siblings = this.#byOwner.get(owned.ownerUid)
    if (!siblings) return
    siblings.delete(owned.uid)
    if (siblings.size === 0) this.#byOwner.delete(owned.ownerUid)
  }
}

/** Each namespace costs one watch per kind, so many of them are replaced by the whole cluster, written ''. */
const namespacesMax = 20

export function selectNamespaces(owners: ReadonlySet<string>, allowed: readonly string[] | null): readonly string[] {
  const namespaces = [...owners].filter((name) => name !== '' && (allowed === null || allowed.includes(name))).toSorted()
  return allowed === null && namespaces.length > namespacesMax ? [''] : namespaces
}

const findOwner = (object: KubeObject) => controllerOf(object) ?? object.metadata.ownerReferences?.[0]
const hasOwner = (object: KubeObject): boolean => findOwner(object) !== undefined

function toOwnedObject(object: KubeObject): OwnedObject {
  const { uid = '', namespace = '', name } = object.metadata
  return { uid, group: groupOf(object.apiVersion), kind: object.kind, namespace, name, ownerUid: findOwner(object)?.uid ?? '' }
}
