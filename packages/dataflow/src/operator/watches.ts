// The operator's view of the cluster: caches of flows and of their objects, kept up to date by watches. Objects are reduced to the parts that
// decisions need; of Secrets only metadata is read.
import {
  type Change,
  type Informer,
  type Kind,
  type Kube,
  type KubeObject,
  nameKey,
  type ObjectMeta,
  type ObjectRef,
  rowsAt,
  startInformer,
  textAt,
} from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { annotation, apiVersion, label } from './names.ts'

export interface WatchDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
}
export interface WatchOptions {
  /** Empty: all. */
  readonly namespaces: readonly string[]
  readonly watchSecrets: boolean
  readonly hasPodMonitors: boolean
}

/** One kind over one or more namespaces. */
class Watched {
  readonly kind: string
  readonly #informers: readonly Informer<KubeObject>[]

  constructor(
    deps: WatchDeps,
    options: {
      kind: Kind
      namespaces: readonly string[]
      labelSelector?: string
      metadataOnly?: boolean
      project?: (object: KubeObject) => KubeObject
    },
  ) {
    const { kind, namespaces, project = reduceObject, ...selection } = options
    this.kind = kind.kind
    const places = namespaces.length === 0 ? [undefined] : namespaces
    this.#informers = places.map((namespace) => startInformer(deps, { kind, namespace, ...selection, project, streamLists: true }))
  }

  get(key: string): KubeObject | undefined {
    for (const informer of this.#informers) {
      const found = informer.get(key)
      if (found !== undefined) return found
    }
    return undefined
  }

  *list(): Generator<KubeObject> {
    for (const informer of this.#informers) for (const [, object] of informer.entries()) yield object
  }

  get size(): number {
    return this.#informers.reduce((total, { size }) => total + size, 0)
  }

  onChange(handler: (change: Change<KubeObject>) => void): void {
    for (const informer of this.#informers) informer.onChange(handler)
  }

  async whenSynced(signal: AbortSignal): Promise<void> {
    for (const informer of this.#informers) await informer.whenSynced(signal)
  }

  async stop(): Promise<void> {
    await Promise.all(this.#informers.map((informer) => informer.stop()))
  }
}

export type { Watched }

/** The record of field owners is often larger than the object. Of a Deployment or Job the pod template is not needed, only its annotations. */
export function reduceObject(object: KubeObject): KubeObject {
  const metadata = reduceMetadata(object.metadata)
  const { jobTemplate: _jobs, ...spec } = object.spec ?? {}
  if (object.spec === undefined) return { ...object, metadata }
  const template = spec['template'] as { metadata?: { annotations?: unknown; labels?: unknown } } | undefined
  if (template === undefined) return { ...object, metadata, spec }
  const { annotations, labels } = template.metadata ?? {}
  return { ...object, metadata, spec: { ...spec, template: { metadata: { annotations, labels } } } }
}

/** `kubectl apply` keeps a second copy of the whole object in an annotation. */
function reduceMetadata({ managedFields: _owners, annotations, ...metadata }: ObjectMeta): ObjectMeta {
  if (annotations === undefined) return metadata
  const { 'kubectl.kubernetes.io/last-applied-configuration': _copy, ...kept } = annotations
  return { ...metadata, annotations: kept }
}

/** A pod with its spec and the states of its containers has many kilobytes; its address, phase and waiting reason decide. */
export function reducePod({ apiVersion: version, kind, metadata, status }: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion, labels, ownerReferences, deletionTimestamp } = metadata
  const address = metadata.annotations?.[annotation.progressAddress]
  const annotations = address === undefined ? undefined : { [annotation.progressAddress]: address }
  const containerStatuses = rowsAt(status, 'containerStatuses').map((row) => ({
    state: { waiting: { reason: textAt(row, 'state', 'waiting', 'reason') } },
  }))
  const { phase, podIP } = status ?? {}
  return {
    apiVersion: version,
    kind,
    metadata: { name, ...known({ namespace, uid, resourceVersion, labels, annotations, ownerReferences, deletionTimestamp }) },
    status: { phase, podIP, containerStatuses },
  }
}

const known = (fields: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/** Annotations of a Secret may contain its content, as applied. */
function reduceSecret({ apiVersion: version, kind, metadata }: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion, ownerReferences } = metadata
  return { apiVersion: version, kind, metadata: { name, ...known({ namespace, uid, resourceVersion, ownerReferences }) } }
}

const ownedSelector = `${label.owned}=true`
/** Kinds of children that are only compared by version. */
const versionedKinds: readonly Kind[] = [
  { apiVersion: 'v1', kind: 'ConfigMap' },
  { apiVersion: 'v1', kind: 'ServiceAccount' },
  { apiVersion: 'v1', kind: 'Service' },
  { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role' },
  { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding' },
]

export class ClusterView {
  readonly flows: readonly Watched[]
  readonly deployments: Watched
  readonly pods: Watched
  readonly jobs: Watched
  readonly cronJobs: Watched
  /** Undefined without WATCH_SECRETS. */
  readonly secrets: Watched | undefined
  readonly #versioned: ReadonlyMap<string, Watched>
  readonly #all: readonly Watched[]

  constructor(deps: WatchDeps, { namespaces, watchSecrets, hasPodMonitors }: WatchOptions) {
    const owned = (kind: Kind, metadataOnly = false) =>
      new Watched(deps, { kind, namespaces, labelSelector: ownedSelector, ...(metadataOnly ? { metadataOnly } : {}) })
    this.flows = ['DataFlow', 'DataFlowCron'].map((kind) => new Watched(deps, { kind: { apiVersion, kind }, namespaces }))
    this.deployments = owned({ apiVersion: 'apps/v1', kind: 'Deployment' })
    this.pods = new Watched(deps, { kind: { apiVersion: 'v1', kind: 'Pod' }, namespaces, labelSelector: ownedSelector, project: reducePod })
    this.jobs = owned({ apiVersion: 'batch/v1', kind: 'Job' })
    this.cronJobs = owned({ apiVersion: 'batch/v1', kind: 'CronJob' })
    // Referenced Secrets have no label of ours, and may be in namespaces whose flows are not handled.
    this.secrets = watchSecrets
      ? new Watched(deps, { kind: { apiVersion: 'v1', kind: 'Secret' }, namespaces, metadataOnly: true, project: reduceSecret })
      : undefined
    const monitors = hasPodMonitors ? [{ apiVersion: 'monitoring.coreos.com/v1', kind: 'PodMonitor' }] : []
    this.#versioned = new Map([...versionedKinds, ...monitors].map((kind) => [kind.kind, owned(kind, true)]))
    this.#all = [...this.flows, this.deployments, this.pods, this.jobs, this.cronJobs, ...this.#versioned.values()].concat(
      this.secrets ?? [],
    )
  }

  get versioned(): Iterable<Watched> {
    return this.#versioned.values()
  }

  flow(kind: string, namespace: string, name: string): KubeObject | undefined {
    return this.flows.find((watched) => watched.kind === kind)?.get(nameKey({ namespace, name }))
  }

  *listFlows(): Generator<KubeObject> {
    for (const watched of this.flows) yield* watched.list()
  }

  isWatched(kind: string): boolean {
    return this.#watchedOf(kind) !== undefined
  }

  /** A child, or its metadata; undefined if it is absent or its kind is not watched. */
  child(ref: ObjectRef): KubeObject | undefined {
    return this.#watchedOf(ref.kind)?.get(nameKey(ref))
  }

  #watchedOf(kind: string): Watched | undefined {
    if (kind === 'Secret') return this.secrets
    if (kind === 'Deployment') return this.deployments
    return kind === 'CronJob' ? this.cronJobs : this.#versioned.get(kind)
  }

  async whenSynced(signal: AbortSignal): Promise<void> {
    for (const watched of this.#all) await watched.whenSynced(signal)
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map((watched) => watched.stop()))
  }
}
