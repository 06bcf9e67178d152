// All clusters that Pipelines use: the management cluster and the leaf clusters that GitopsCluster objects name. Driven to the used set.
import { GITOPS_CLUSTER } from '@brokkr/contract/pipelines/fields.ts'
import type { ClusterRef } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { hasReason, type Informer, type Kube, type KubeObject, startInformer } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { ClusterConnection } from './connection.ts'
import { type LeafCluster, toLeafCluster } from './kubeconfig-secret.ts'
import { RemoteCluster, type RemoteTimes } from './remote-cluster.ts'
import { type ClusterId, LOCAL, type UsedKind, type UsedSet } from './used-set.ts'

export interface ClustersDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly onApp: (cluster: ClusterId, kind: UsedKind, key: string) => void
  /** A cluster object, its reachability or one of its watches changed. */
  readonly onCluster: (cluster: ClusterId) => void
}

export type TargetLookup =
  | { readonly state: 'present'; readonly object: KubeObject }
  | { readonly state: 'absent' }
  | { readonly state: 'indefinite'; readonly problem: IndefiniteProblem; readonly error: string }

export type IndefiniteProblem =
  | 'cluster-not-found'
  | 'cluster-not-ready'
  | 'cluster-unusable'
  | 'unreachable'
  | 'not-synced'
  | 'kind-not-served'

const NONE: ReadonlyMap<string, UsedKind> = new Map()

export class Clusters {
  readonly #deps: ClustersDeps
  readonly #times: RemoteTimes
  readonly #local: ClusterConnection
  readonly #leaves: Informer<LeafCluster>
  readonly #remotes = new Map<ClusterId, { secretName: string; cluster: RemoteCluster }>()
  #used: UsedSet = new Map()

  constructor(deps: ClustersDeps, times: RemoteTimes) {
    this.#deps = deps
    this.#times = times
    this.#local = new ClusterConnection({ ...this.#connectionDeps(LOCAL), kube: deps.kube }, times)
    this.#leaves = startInformer(deps, {
      kind: GITOPS_CLUSTER,
      project: toLeafCluster,
      backoff: { baseMs: 1_000, maxMs: 60_000, jitter: 'equal' },
    })
    this.#leaves.onChange(({ key }) => {
      this.#driveRemotes()
      deps.onCluster(key)
    })
    this.#measure()
  }

  /** True once the management cluster's objects can be read; leaf clusters are not waited for. */
  get isReady(): boolean {
    return this.#local.isSynced && (this.#leaves.synced || hasReason(this.#leaves.lastError, 'UnknownKind'))
  }

  drive(used: UsedSet): void {
    this.#used = used
    this.#local.drive(used.get(LOCAL) ?? NONE)
    this.#driveRemotes()
  }

  /** The state of a cluster alone, as trigger Webhook needs it; null: it is usable. */
  findProblem(ref: ClusterRef, cluster: ClusterId): { problem: IndefiniteProblem; error: string } | null {
    const leaf = this.#leaves.get(cluster)
    const name = `${ref.kind} ${cluster}`
    if (leaf === undefined && !this.#leaves.synced)
      return { problem: 'not-synced', error: `${name}: ${this.#leaves.lastError?.message ?? 'clusters are not read yet'}` }
    if (leaf === undefined) return { problem: 'cluster-not-found', error: `${name} not found` }
    return leaf.isReady ? null : { problem: 'cluster-not-ready', error: `${name} is not ready` }
  }

  find(at: {
    ref: ClusterRef | undefined
    cluster: ClusterId
    kind: { apiVersion: string; kind: string }
    namespace: string
    name: string
  }): TargetLookup {
    if (at.ref === undefined) return this.#local.find(at.kind, at.namespace, at.name)
    const problem = this.findProblem(at.ref, at.cluster)
    if (problem !== null) return { state: 'indefinite', ...problem }
    const remote = this.#remotes.get(at.cluster)?.cluster
    const error = remote?.error ?? (this.#leaves.get(at.cluster)?.secretName === null ? 'the cluster names no kubeconfig Secret' : null)
    const connection = remote?.connection ?? null
    if (connection === null)
      return {
        state: 'indefinite',
        problem: error === null ? 'not-synced' : 'cluster-unusable',
        error: error ?? 'the kubeconfig Secret is not read yet',
      }
    return connection.find(at.kind, at.namespace, at.name)
  }

  async stop(): Promise<void> {
    const remotes = [...this.#remotes.values()]
    this.#remotes.clear()
    await Promise.all([this.#leaves.stop(), this.#local.stop(), ...remotes.map(({ cluster }) => cluster.stop())])
  }

  /** A leaf cluster is open while a Pipeline uses it and its object exists; another Secret name is another connection. */
  #driveRemotes(): void {
    for (const [id, remote] of this.#remotes) {
      if (this.#used.has(id) && this.#leaves.get(id)?.secretName === remote.secretName) continue
      this.#remotes.delete(id)
      void remote.cluster.stop()
    }
    for (const [id, kinds] of this.#used) if (id !== LOCAL) this.#driveRemote(id, kinds)
  }

  #driveRemote(id: ClusterId, kinds: ReadonlyMap<string, UsedKind>): void {
    const leaf = this.#leaves.get(id)
    const secretName = leaf?.secretName ?? null
    if (leaf === undefined || secretName === null) return
    const remote = this.#remotes.get(id) ?? {
      secretName,
      cluster: new RemoteCluster({ ...this.#connectionDeps(id), management: this.#deps.kube }, this.#times, { ...leaf, secretName }),
    }
    this.#remotes.set(id, remote)
    remote.cluster.drive(kinds)
  }

  #connectionDeps(id: ClusterId) {
    const { clock, log, onApp, onCluster } = this.#deps
    return {
      clock,
      log: log.child({ cluster: id }),
      onApp: (kind: UsedKind, key: string) => onApp(id, kind, key),
      onState: () => onCluster(id),
    }
  }

  #measure(): void {
    const watches = this.#deps.metrics.gauge('watches', 'Application watches by cluster and kind', ['cluster', 'kind'])
    const contact = this.#deps.metrics.gauge('watch_contact_age_seconds', 'Seconds since the last contact with a cluster', ['cluster'])
    this.#deps.metrics.beforeScrape(() => {
      watches.reset()
      contact.reset()
      const open = [[LOCAL, this.#local] as const, ...[...this.#remotes].map(([id, { cluster }]) => [id, cluster.connection] as const)]
      for (const [cluster, connection] of open) {
        for (const { kind } of connection?.watches ?? []) watches.inc({ cluster, kind: kind.kind })
        const ageMs = connection?.contactAgeMs ?? Number.POSITIVE_INFINITY
        if (Number.isFinite(ageMs)) contact.set({ cluster }, ageMs / 1000)
      }
    })
  }
}
