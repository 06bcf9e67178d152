// One client to one cluster with all its application watches, and how long ago the cluster was last heard of.
import type { Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import { type AppLookup, AppWatch } from './app-watch.ts'
import { kindKey, type UsedKind } from './used-set.ts'

export interface ConnectionDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly onApp: (kind: UsedKind, key: string) => void
  /** Reachability or the state of a watch changed. */
  readonly onState: () => void
}

export interface ConnectionTimes {
  /** Pause between two probes of an idle cluster. */
  readonly probeEveryMs: number
  /** Without contact for so long, all targets of the cluster are indefinite. */
  readonly staleMs: number
  /** How long an unused watch lives on. */
  readonly collectAfterMs: number
}

export type ConnectionLookup = AppLookup | { readonly state: 'indefinite'; readonly problem: 'unreachable'; readonly error: string }

export class ClusterConnection {
  readonly #deps: ConnectionDeps
  readonly #times: ConnectionTimes
  readonly #watches = new Map<string, AppWatch>()
  readonly #unused = new Map<string, { cancel(): void }>()
  readonly #probing: RunningLoop
  #probedAtMs = Number.NEGATIVE_INFINITY
  #lastState = ''
  #isStopped = false

  constructor(deps: ConnectionDeps, times: ConnectionTimes) {
    this.#deps = deps
    this.#times = times
    const run = () => this.#probeIfIdle()
    this.#probing = startLoop(deps, { name: 'pipelines-cluster-probe', everyMs: times.probeEveryMs, run }, { immediately: true })
  }

  get kube(): Kube {
    return this.#deps.kube
  }

  /** Kinds that are watched now. */
  get watches(): Iterable<AppWatch> {
    return this.#watches.values()
  }

  /** Since the last event, bookmark or successful probe. */
  get contactAgeMs(): number {
    const watched = [...this.#watches.values()].map(({ contactAgeMs }) => contactAgeMs)
    return Math.min(this.#deps.clock.monotonicMs() - this.#probedAtMs, ...watched)
  }

  /** Starts the watches of the set; one that is not in it any more stops after a moment, unless it is used again. */
  drive(used: ReadonlyMap<string, UsedKind>): void {
    if (this.#isStopped) return
    for (const [key, use] of used) {
      this.#unused.get(key)?.cancel()
      this.#unused.delete(key)
      const watch = this.#watches.get(key)
      if (watch === undefined) this.#watches.set(key, this.#start(use))
      else watch.setUse(use)
    }
    for (const key of this.#watches.keys()) if (!used.has(key) && !this.#unused.has(key)) this.#collectLater(key)
  }

  find(kind: { apiVersion: string; kind: string }, namespace: string, name: string): ConnectionLookup {
    if (this.contactAgeMs > this.#times.staleMs) return this.#unreachable()
    const watch = this.#watches.get(kindKey(kind))
    return watch?.find(namespace, name) ?? { state: 'indefinite', problem: 'not-synced', error: 'not read yet' }
  }

  get isSynced(): boolean {
    return [...this.#watches.values()].every(({ isSynced }) => isSynced)
  }

  /** Throws when the cluster does not answer. */
  async probe(signal?: AbortSignal): Promise<void> {
    await this.#deps.kube.request('GET', '/version', { urgent: true, timeoutMs: 10_000, signal })
    this.#probedAtMs = this.#deps.clock.monotonicMs()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    for (const timer of this.#unused.values()) timer.cancel()
    await Promise.all([this.#probing.stop(), ...[...this.#watches.values()].map((watch) => watch.stop())])
    this.#watches.clear()
  }

  #start(use: UsedKind): AppWatch {
    const { kube, clock, log, onApp, onState } = this.#deps
    return new AppWatch({ kube, clock, log, staleMs: this.#times.staleMs, onChange: (key) => onApp(use, key), onState }, use)
  }

  #collectLater(key: string): void {
    const timer = this.#deps.clock.setTimer(this.#times.collectAfterMs, () => {
      const watch = this.#watches.get(key)
      this.#unused.delete(key)
      this.#watches.delete(key)
      void watch?.stop()
    })
    this.#unused.set(key, timer)
  }

  async #probeIfIdle(): Promise<void> {
    if (this.contactAgeMs >= this.#times.probeEveryMs) await this.probe().catch(() => undefined)
    // An informer that recovers without a change has no event of its own, so the states are compared after every probe.
    const state = [this.contactAgeMs <= this.#times.staleMs, ...[...this.#watches.values()].map(({ isReadable }) => isReadable)].join()
    if (state !== this.#lastState) this.#deps.onState()
    this.#lastState = state
  }

  #unreachable(): ConnectionLookup {
    const ageMs = this.contactAgeMs
    const since = Number.isFinite(ageMs) ? new Date(this.#deps.clock.now() - ageMs).toISOString() : 'the start of the controller'
    return { state: 'indefinite', problem: 'unreachable', error: `not reachable since ${since}` }
  }
}
