// Which clusters and application kinds the Pipelines use. Pure: the running watches are driven to this set.
import type { ClusterRef, PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { type GroupKind, groupKindOf, groupKindText } from '@brokkr/kube'

/** `local` is the management cluster; any other is `namespace/name` of a GitopsCluster. */
export type ClusterId = string
export const LOCAL: ClusterId = 'local'

export interface UsedKind {
  readonly apiVersion: string
  readonly kind: string
  readonly namespaces: ReadonlySet<string>
}

/** Per cluster the kinds that are watched there, by `apiVersion kind`. A cluster without kinds is still used. */
export type UsedSet = ReadonlyMap<ClusterId, ReadonlyMap<string, UsedKind>>

export interface PipelineUse {
  readonly namespace: string
  readonly spec: PipelineSpec
  /** False under trigger Webhook: only the cluster objects are read. */
  readonly readsApps: boolean
}

export const clusterIdOf = (ref: ClusterRef | undefined, pipelineNamespace: string): ClusterId =>
  ref === undefined ? LOCAL : `${ref.namespace || pipelineNamespace}/${ref.name}`

/** Where an application is read; empty in the spec means the Pipeline's namespace. */
export const appNamespace = (target: { namespace: string }, pipelineNamespace: string): string => target.namespace || pipelineNamespace

export const kindKey = (kind: { apiVersion: string; kind: string }): string => `${kind.apiVersion} ${kind.kind}`

/** Stacks are read from the broker, not from a cluster. */
export const isStackApp = (appRef: { apiVersion: string; kind: string }): boolean =>
  appRef.kind === 'Stack' && appRef.apiVersion.startsWith('brokkr.io/')

export function toUsedSet(pipelines: Iterable<PipelineUse>): UsedSet {
  const used = new Map<ClusterId, Map<string, { apiVersion: string; kind: string; namespaces: Set<string> }>>()
  for (const { namespace, spec, readsApps } of pipelines) {
    for (const target of spec.environments.flatMap(({ targets }) => targets)) {
      const kinds = getOrAdd(used, clusterIdOf(target.clusterRef, namespace), () => new Map())
      if (!readsApps || isStackApp(spec.appRef)) continue
      const { apiVersion, kind } = spec.appRef
      getOrAdd(kinds, kindKey(spec.appRef), () => ({ apiVersion, kind, namespaces: new Set() })).namespaces.add(
        appNamespace(target, namespace),
      )
    }
  }
  return used
}

function getOrAdd<K, V>(map: Map<K, V>, key: K, create: () => V): V {
  const value = map.get(key) ?? create()
  map.set(key, value)
  return value
}

/** {cluster, group and kind, namespace, name} → Pipelines. Replaced per Pipeline in one step: an event finds the old or the new set. */
export class AppIndex {
  readonly #pipelines = new Map<string, Set<string>>()
  readonly #entries = new Map<string, ReadonlySet<string>>()

  replace(pipelineKey: string, use: PipelineUse | null): void {
    const before = this.#entries.get(pipelineKey) ?? new Set<string>()
    const now = use === null ? new Set<string>() : toEntries(use)
    for (const entry of now) getOrAdd(this.#pipelines, entry, () => new Set()).add(pipelineKey)
    for (const entry of before) if (!now.has(entry)) this.#remove(entry, pipelineKey)
    if (use === null) this.#entries.delete(pipelineKey)
    else this.#entries.set(pipelineKey, now)
  }

  /** Pipelines that read this application. */
  byApp(cluster: ClusterId, kind: { apiVersion: string; kind: string }, key: string): Iterable<string> {
    return this.#pipelines.get(appEntry(cluster, groupKindOf(kind), key)) ?? []
  }

  /** Pipelines with a target in this cluster. */
  byCluster(cluster: ClusterId): Iterable<string> {
    return this.#pipelines.get(clusterEntry(cluster)) ?? []
  }

  #remove(entry: string, pipelineKey: string): void {
    const pipelines = this.#pipelines.get(entry)
    pipelines?.delete(pipelineKey)
    if (pipelines?.size === 0) this.#pipelines.delete(entry)
  }
}

const appEntry = (cluster: ClusterId, kind: GroupKind, key: string): string => `app|${cluster}|${groupKindText(kind)}|${key}`
const clusterEntry = (cluster: ClusterId): string => `cluster|${cluster}`

function toEntries({ namespace, spec }: PipelineUse): Set<string> {
  return new Set(
    spec.environments.flatMap(({ targets }) =>
      targets.flatMap((target) => {
        const cluster = clusterIdOf(target.clusterRef, namespace)
        const key = `${appNamespace(target, namespace)}/${spec.appRef.name}`
        return [clusterEntry(cluster), appEntry(cluster, groupKindOf(spec.appRef), key)]
      }),
    ),
  )
}
