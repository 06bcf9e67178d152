// A self-healing copy of all objects of a kind: list, then watch, repeatedly. Failures are retried with backoff. The cached objects stay until
// a complete new list replaces them, and handlers receive the difference.
//
// States: listing (no position) → watching (position known). A watch that ends is resumed at its position. An expired position, an unreadable
// event and any other refusal lead back to listing.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type BackoffPolicy, backoffDelayMs, randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { CallOptions, Kube, Selection, WatchEvent } from '../client/kube.ts'
import { KubeError } from '../client/kube-error.ts'
import { type Kind, type KubeObject, nameKey } from '../client/object.ts'
import { type Change, forEachChange, InformerCache } from './informer-cache.ts'
import { type AfterFailure, planRecovery } from './informer-recovery.ts'

export interface InformerOptions<T> extends Selection {
  kind: Kind
  /** Reduces an object for the cache; default: the whole object. */
  project?: ((object: KubeObject) => T) | undefined
  /** Filter of objects that are kept and reported; default: all. */
  isKept?: ((object: KubeObject) => boolean) | undefined
  as?: CallOptions['as']
  pageSize?: number | undefined
  /** A watch without any event for this long counts as dead. The server sends a bookmark about once a minute. */
  idleMs?: number | undefined
  backoff?: BackoffPolicy | undefined
  /** Streams lists as events if the server supports it; default false. */
  streamLists?: boolean | undefined
}

export interface InformerDeps {
  kube: Kube
  clock: Clock
  log: Log
}

const BACKOFF: BackoffPolicy = { baseMs: 500, maxMs: 30_000, jitter: 'equal' }
/** A watch that lasted this long counts as healthy. */
const HEALTHY_MS = 5_000
const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

export function startInformer(deps: InformerDeps, options: InformerOptions<KubeObject> & { project?: undefined }): Informer<KubeObject>
export function startInformer<T>(deps: InformerDeps, options: InformerOptions<T> & { project: (object: KubeObject) => T }): Informer<T>
export function startInformer<T>(deps: InformerDeps, options: InformerOptions<T>): Informer<T> {
  return new Informer(deps, options)
}

const isEndOfList = (event: WatchEvent): boolean =>
  event.type === 'BOOKMARK' && event.object.metadata.annotations?.[INITIAL_EVENTS_END] === 'true'

export class Informer<T> {
  readonly kind: Kind
  readonly #deps: InformerDeps
  readonly #options: InformerOptions<T>
  readonly #cache: InformerCache<T>
  readonly #handlers = new Set<(change: Change<T>) => void>()
  readonly #stopping = new AbortController()
  readonly #firstList = Promise.withResolvers<void>()
  readonly #running: Promise<void>
  #synced = false
  #position: string | undefined
  #failures = 0
  #streams: boolean
  #contactMs = Number.NEGATIVE_INFINITY
  #lastError: Error | undefined
  #lists = 0

  constructor(deps: InformerDeps, options: InformerOptions<T>) {
    this.kind = options.kind
    this.#deps = deps
    this.#options = options
    this.#cache = new InformerCache(options.project ?? ((object) => object as T), options.isKept)
    this.#streams = options.streamLists === true
    this.#running = this.#run()
  }

  get(key: string): T | undefined {
    return this.#cache.get(key)
  }

  entries(): Iterable<[string, T]> {
    return this.#cache.entries()
  }

  get size(): number {
    return this.#cache.size
  }

  /** True after the first complete list. */
  get synced(): boolean {
    return this.#synced
  }

  /** Time since the server last sent anything; Infinity before the first event. */
  get contactAgeMs(): number {
    return this.#deps.clock.monotonicMs() - this.#contactMs
  }

  /** Why the informer has no contact; undefined while it has. */
  get lastError(): Error | undefined {
    return this.#lastError
  }

  /** Number of complete lists so far. */
  get lists(): number {
    return this.#lists
  }

  /** Adds a handler for all changes; existing objects are first reported as `added`. Errors of a handler are logged. */
  onChange(handler: (change: Change<T>) => void): () => void {
    for (const [key, value] of this.#cache.entries()) this.#tell(handler, { type: 'added', key, value })
    this.#handlers.add(handler)
    return () => void this.#handlers.delete(handler)
  }

  async whenSynced(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    const { promise, reject } = Promise.withResolvers<never>()
    const abort = (): void => reject(signal?.reason as Error)
    signal?.addEventListener('abort', abort, { once: true })
    await Promise.race([this.#firstList.promise, promise]).finally(() => signal?.removeEventListener('abort', abort))
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error(`the informer of ${this.kind.kind} was stopped`))
    this.#handlers.clear()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const startedMs = this.#deps.clock.monotonicMs()
      try {
        await this.#turn()
        // A server that ends every watch at once is not healthy.
        if (this.#deps.clock.monotonicMs() - startedMs >= HEALTHY_MS) this.#failures = 0
        else await this.#pause()
      } catch (error) {
        if (signal.aborted) return
        if (this.#deps.clock.monotonicMs() - startedMs >= HEALTHY_MS) this.#failures = 0
        if (this.#noteFailure(error).pause) await this.#pause()
        else this.#failures++
      }
    }
  }

  async #turn(): Promise<void> {
    if (this.#position === undefined && this.#streams) return this.#follow({ sendInitialEvents: true }, this.#cache.newList())
    if (this.#position === undefined) {
      await this.#list()
      // Callers that wait for the list run first, because connecting the watch takes a moment.
      await nextTurn()
    }
    return this.#follow({ resourceVersion: this.#position }, undefined)
  }

  async #list(): Promise<void> {
    const fresh = this.#cache.newList()
    const position = await this.#deps.kube.scan(
      this.kind,
      { ...this.#selection(), pageSize: this.#options.pageSize },
      {
        take: (items) => {
          this.#touch()
          for (const object of items) this.#cache.fill(fresh, object)
        },
        anew: () => fresh.clear(),
      },
    )
    this.#complete(fresh, position)
  }

  /** With `fresh`, events fill a new list until the server marks its end. */
  async #follow(
    start: { resourceVersion?: string | undefined; sendInitialEvents?: boolean },
    fresh: ReturnType<InformerCache<T>['newList']> | undefined,
  ): Promise<void> {
    let filling = fresh
    const options = {
      ...this.#selection(),
      ...start,
      idleMs: this.#options.idleMs ?? 90_000,
      serverTimeoutMs: randomBetween(300_000, 600_000),
      onOpen: () => this.#touch(),
      onEvents: (events: WatchEvent[]) => {
        this.#touch()
        for (const event of events) {
          if (!filling) this.#take(event)
          else if (isEndOfList(event)) {
            this.#complete(filling, event.object.metadata.resourceVersion ?? '')
            filling = undefined
          } else this.#fill(filling, event)
        }
      },
    }
    for await (const _event of this.#deps.kube.watch(this.kind, options));
    if (filling) throw new KubeError(`list ${this.kind.kind}: the stream ended before the list was complete`, { reason: 'Unreachable' })
  }

  #fill(fresh: ReturnType<InformerCache<T>['newList']>, event: WatchEvent): void {
    if (event.type === 'BOOKMARK') return
    if (event.type === 'DELETED') fresh.delete(nameKey(event.object.metadata))
    else this.#cache.fill(fresh, event.object)
  }

  #take(event: WatchEvent): void {
    if (event.type === 'DELETED') this.#tellAll(this.#cache.remove(event.object))
    else if (event.type !== 'BOOKMARK') this.#tellAll(this.#cache.put(event.object))
    this.#position = event.object.metadata.resourceVersion ?? this.#position
  }

  #complete(fresh: ReturnType<InformerCache<T>['newList']>, position: string): void {
    const before = this.#cache.replaceAll(fresh)
    this.#position = position
    this.#synced = true
    this.#lists++
    if (this.#handlers.size > 0) forEachChange(before, fresh, (change) => this.#tellEach(change))
    this.#firstList.resolve()
  }

  #noteFailure(error: unknown): AfterFailure {
    const next = planRecovery(error, { listing: this.#position === undefined, streams: this.#streams, failures: this.#failures })
    this.#lastError = error instanceof Error ? error : new Error(String(error))
    this.#deps.log.debug('informer interrupted', { kind: this.kind.kind, error: this.#lastError.message, failures: this.#failures })
    if (!next.resume) this.#position = undefined
    this.#streams = next.streams
    return next
  }

  async #pause(): Promise<void> {
    await this.#deps.clock
      .sleep(backoffDelayMs(this.#options.backoff ?? BACKOFF, this.#failures++), this.#stopping.signal)
      .catch(() => undefined)
  }

  #selection(): Selection & Pick<CallOptions, 'signal' | 'as'> {
    const { namespace, labelSelector, fieldSelector, metadataOnly, as } = this.#options
    return { namespace, labelSelector, fieldSelector, metadataOnly, as, signal: this.#stopping.signal }
  }

  #touch(): void {
    this.#contactMs = this.#deps.clock.monotonicMs()
    this.#lastError = undefined
  }

  #tellAll(changes: Change<T>[]): void {
    for (const change of changes) this.#tellEach(change)
  }

  #tellEach(change: Change<T>): void {
    for (const handler of this.#handlers) this.#tell(handler, change)
  }

  #tell(handler: (change: Change<T>) => void, change: Change<T>): void {
    try {
      handler(change)
    } catch (error) {
      this.#deps.log.error('informer handler failed', { kind: this.kind.kind, key: change.key, error: String(error) })
    }
  }
}
