// A leaf cluster: its kubeconfig Secret is watched by name; a new content gets a connection of its own, which replaces the old one when
// it answers and its watches are complete, or when the old one has served for its time.

import { type Informer, type Kube, type KubeObject, openKube, startInformer } from '@brokkr/kube'
import { ClusterConnection, type ConnectionDeps, type ConnectionTimes } from './connection.ts'
import { type LeafCluster, readKubeconfigSecret } from './kubeconfig-secret.ts'
import type { UsedKind } from './used-set.ts'
import { waitUntil } from './wait-until.ts'

export interface RemoteClusterDeps extends Omit<ConnectionDeps, 'kube'> {
  readonly management: Kube
}

export interface RemoteTimes extends ConnectionTimes {
  /** How long the old connection serves beside a new kubeconfig that does not answer, and after one that cannot be used. */
  readonly rotationMs: number
}

interface Open {
  readonly hash: string
  readonly kube: Kube
  readonly connection: ClusterConnection
}

export class RemoteCluster {
  readonly #deps: RemoteClusterDeps
  readonly #times: RemoteTimes
  readonly #secret: Informer<KubeObject>
  readonly #stopping = new AbortController()
  #used: ReadonlyMap<string, UsedKind> = new Map()
  #current: Open | null = null
  #next: Open | null = null
  #error: string | null = null
  #closing: { cancel(): void } | null = null

  constructor(deps: RemoteClusterDeps, times: RemoteTimes, at: LeafCluster & { secretName: string }) {
    this.#deps = deps
    this.#times = times
    const selection = { namespace: at.namespace, fieldSelector: `metadata.name=${at.secretName}` }
    this.#secret = startInformer(
      { kube: deps.management, clock: deps.clock, log: deps.log },
      { kind: { apiVersion: 'v1', kind: 'Secret' }, ...selection },
    )
    this.#secret.onChange((change) => this.#onSecret(change.type === 'deleted' ? null : change.value))
    this.#secret
      .whenSynced(this.#stopping.signal)
      .then(() => this.#secret.size === 0 && this.#onSecret(null))
      .catch(() => undefined)
  }

  /** The connection that answers; null: there is none, and `error` says why. */
  get connection(): ClusterConnection | null {
    return this.#current?.connection ?? null
  }

  get error(): string | null {
    return this.#error ?? (this.#secret.synced ? null : (this.#secret.lastError?.message ?? null))
  }

  drive(used: ReadonlyMap<string, UsedKind>): void {
    this.#used = used
    this.#current?.connection.drive(used)
    this.#next?.connection.drive(used)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the cluster is not used any more'))
    this.#closing?.cancel()
    const open = [this.#current, this.#next].filter((each) => each !== null)
    this.#current = null
    this.#next = null
    await Promise.all([this.#secret.stop(), ...open.map(close)])
  }

  #onSecret(secret: KubeObject | null): void {
    if (this.#stopping.signal.aborted) return
    const config = secret === null ? ({ ok: false, error: 'the kubeconfig Secret does not exist' } as const) : readKubeconfigSecret(secret)
    if (!config.ok) {
      this.#dropNext()
      return this.#fail(config.error)
    }
    if (config.hash === this.#next?.hash) return
    if (config.hash === this.#current?.hash) return this.#keepCurrent()
    const kube = openKube(config.config, { clock: this.#deps.clock, userAgent: 'brokkr-pipelines' })
    const next: Open = { hash: config.hash, kube, connection: new ClusterConnection({ ...this.#deps, kube }, this.#times) }
    this.#dropNext()
    this.#next = next
    next.connection.drive(this.#used)
    // Without an old connection there is nothing to wait for: its targets stay indefinite until the watches are complete.
    if (this.#current === null) this.#swap(next)
    else void this.#swapWhenReady(next)
  }

  /** The content is again that of the connection in use: a mistake was corrected. */
  #keepCurrent(): void {
    this.#dropNext()
    this.#closing?.cancel()
    this.#closing = null
    this.#error = null
    this.#deps.onState()
  }

  #dropNext(): void {
    if (this.#next !== null) void close(this.#next)
    this.#next = null
  }

  /** At the limit it replaces the old one all the same: its watches go on trying, and its targets say why they cannot be read. */
  async #swapWhenReady(next: Open): Promise<void> {
    await waitUntil(this.#deps.clock, () => next.connection.isSynced && Number.isFinite(next.connection.contactAgeMs), {
      limitMs: this.#times.rotationMs,
      signal: this.#stopping.signal,
    })
    if (this.#next === next && !this.#stopping.signal.aborted) this.#swap(next)
  }

  #swap(next: Open): void {
    const old = this.#current
    this.#current = next
    this.#next = null
    this.#error = null
    this.#closing?.cancel()
    this.#closing = null
    if (old !== null) void close(old)
    this.#deps.onState()
  }

  /** The old connection is used for a while longer, so that a mistake in a Secret can be corrected without a gap. */
  #fail(error: string): void {
    this.#error = error
    this.#closing ??= this.#deps.clock.setTimer(this.#times.rotationMs, () => {
      const old = this.#current
      this.#current = null
      this.#closing = null
      if (old !== null) void close(old)
      this.#deps.onState()
    })
    this.#deps.onState()
  }
}

async function close({ connection, kube }: Open): Promise<void> {
  await connection.stop()
  await kube.close()
}
