// The watch of one application kind in one cluster: over all namespaces where that is allowed, else one informer per namespace. It counts
// as running when its lists are complete; an installation that fails is removed as a whole and tried again.

import { groupOf, hasReason, type Informer, type Kube, type KubeObject, startInformer } from '@brokkr/kube'
import { type BackoffPolicy, backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { trimApp } from '../apps/index.ts'
import type { UsedKind } from './used-set.ts'

export interface AppWatchDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  /** Without contact for so long, what the watch holds says nothing about the present. */
  readonly staleMs: number
  /** `key` is `namespace/name` of the object. Also called for every object of the first list. */
  readonly onChange: (key: string) => void
  /** The state of the watch changed: its first list is complete, or an error came or went. */
  readonly onState: () => void
}

export type AppLookup =
  | { readonly state: 'present'; readonly object: KubeObject }
  | { readonly state: 'absent' }
  | { readonly state: 'indefinite'; readonly problem: 'not-synced' | 'kind-not-served'; readonly error: string }

const INSTALL_BACKOFF: BackoffPolicy = { baseMs: 1_000, maxMs: 60_000, jitter: 'equal' }
const INFORMER_BACKOFF: BackoffPolicy = { baseMs: 500, maxMs: 30_000, jitter: 'equal' }
const ALL_NAMESPACES = ''

export class AppWatch {
  readonly #deps: AppWatchDeps
  readonly #informers = new Map<string, Informer<KubeObject>>()
  readonly #stopping = new AbortController()
  readonly #installing: Promise<void>
  #use: UsedKind
  #scope: 'cluster' | 'namespaces' | null = null
  #error: Error | null = null

  constructor(deps: AppWatchDeps, use: UsedKind) {
    this.#deps = deps
    this.#use = use
    this.#installing = this.#install()
  }

  get kind(): UsedKind {
    return this.#use
  }

  /** Milliseconds since the server last sent anything on this watch. */
  get contactAgeMs(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...[...this.#informers.values()].map(({ contactAgeMs }) => contactAgeMs))
  }

  get isSynced(): boolean {
    return this.#scope !== null && [...this.#informers.values()].every(({ synced }) => synced)
  }

  /** Complete, and in contact with the server or only just out of it. */
  get isReadable(): boolean {
    return this.isSynced && [...this.#informers.values()].every((informer) => !this.#isStale(informer))
  }

  /** Namespaces come and go with the Pipelines. */
  setUse(use: UsedKind): void {
    this.#use = use
    if (this.#scope === 'namespaces') this.#drive()
  }

  find(namespace: string, name: string): AppLookup {
    const informer = this.#informers.get(this.#scope === 'cluster' ? ALL_NAMESPACES : namespace)
    const error: unknown = informer?.lastError ?? this.#error
    if (hasReason(error, 'UnknownKind')) return { state: 'indefinite', problem: 'kind-not-served', error: error.message }
    if (informer === undefined || !informer.synced)
      return {
        state: 'indefinite',
        problem: 'not-synced',
        error: error instanceof Error ? `not readable: ${error.message}` : 'not read yet',
      }
    if (this.#isStale(informer))
      return { state: 'indefinite', problem: 'not-synced', error: `not readable: ${informer.lastError?.message}` }
    const object = informer.get(`${namespace}/${name}`)
    return object === undefined ? { state: 'absent' } : { state: 'present', object }
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error(`the watch of ${this.#use.kind} is not used any more`))
    await this.#installing
    await Promise.all([...this.#informers.values()].map((informer) => informer.stop()))
    this.#informers.clear()
  }

  #isStale(informer: Informer<KubeObject>): boolean {
    return informer.lastError !== undefined && informer.contactAgeMs > this.#deps.staleMs
  }

  async #install(): Promise<void> {
    const { signal } = this.#stopping
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        this.#scope = (await this.#mayWatchAll(signal)) ? 'cluster' : 'namespaces'
        this.#error = null
        this.#drive()
        return
      } catch (error) {
        if (signal.aborted) return
        this.#error = error instanceof Error ? error : new Error(String(error))
        this.#deps.onState()
        await this.#deps.clock.sleep(backoffDelayMs(INSTALL_BACKOFF, attempt), signal).catch(() => undefined)
      }
    }
  }

  async #mayWatchAll(signal: AbortSignal): Promise<boolean> {
    const resource = await this.#deps.kube.discovery.resolve(this.#use, signal)
    const answers = await Promise.all(['list', 'watch'].map((verb) => this.#isAllowed(verb, resource.plural, signal)))
    return answers.every(Boolean)
  }

  async #isAllowed(verb: string, resource: string, signal: AbortSignal): Promise<boolean> {
    const resourceAttributes = { verb, resource, group: groupOf(this.#use.apiVersion) }
    const review = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      metadata: { name: '' },
      spec: { resourceAttributes },
    }
    const answer = await this.#deps.kube.create(review, { signal })
    return answer.status?.['allowed'] === true
  }

  /** Brings the informers to the used namespaces. */
  #drive(): void {
    const wanted = this.#scope === 'cluster' ? new Set([ALL_NAMESPACES]) : this.#use.namespaces
    for (const [namespace, informer] of this.#informers) {
      if (wanted.has(namespace)) continue
      this.#informers.delete(namespace)
      void informer.stop()
    }
    for (const namespace of wanted) if (!this.#informers.has(namespace)) this.#informers.set(namespace, this.#start(namespace))
  }

  #start(namespace: string): Informer<KubeObject> {
    const { kube, clock, log } = this.#deps
    const kind = { apiVersion: this.#use.apiVersion, kind: this.#use.kind }
    const informer = startInformer({ kube, clock, log }, { kind, namespace, project: trimApp(kind), backoff: INFORMER_BACKOFF })
    informer.onChange(({ key }) => this.#deps.onChange(key))
    informer
      .whenSynced(this.#stopping.signal)
      .then(() => this.#deps.onState())
      .catch(() => undefined)
    return informer
  }
}
