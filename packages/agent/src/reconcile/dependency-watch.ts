// Watches for kinds and namespaces that stacks wait for, and retries these stacks when they appear. Without waiting stacks nothing is
// watched. Retries by backoff continue, so a watch that fails only costs time.

import {
  findCondition,
  type GroupKind,
  groupKindText,
  type Informer,
  isEstablished,
  type Kube,
  type KubeObject,
  readCrdKind,
  startInformer,
  textAt,
} from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { WaitsFor } from './problem.ts'

export interface DependencyWatchDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  /** False: the agent may only read its namespaces and cannot watch cluster-scoped objects. */
  readonly mayWatch: () => boolean
}
/** Discovery serves a kind shortly after its definition is established. */
const servedWithinMs = 10_000
const lookMs = 50

const definitions = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }
const services = { apiVersion: 'apiregistration.k8s.io/v1', kind: 'APIService' }
const namespaces = { apiVersion: 'v1', kind: 'Namespace' }

/** A new kind, every kind of a group, or a namespace. */
type Arrival = { readonly kind: string } | { readonly group: string } | { readonly namespace: string } | null

export class DependencyWatch {
  readonly #deps: DependencyWatchDeps
  readonly #onArrival: (stackId: string) => void
  readonly #waiting = new Map<string, WaitsFor>()
  readonly #informers = new Map<string, Informer<Arrival>>()
  readonly #stopping = new AbortController()

  constructor(deps: DependencyWatchDeps, onArrival: (stackId: string) => void) {
    this.#deps = deps
    this.#onArrival = onArrival
  }

  /** Dependencies of the stack; undefined: none. */
  set(stackId: string, waits: WaitsFor | undefined): void {
    if (waits === undefined) this.#waiting.delete(stackId)
    else this.#waiting.set(stackId, waits)
    this.#watch()
  }

  get size(): number {
    return this.#waiting.size
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the agent is stopping'))
    this.#waiting.clear()
    await Promise.all([...this.#informers.values()].map((informer) => informer.stop()))
  }

  #watch(): void {
    if (this.#stopping.signal.aborted || !this.#deps.mayWatch()) return
    const all = [...this.#waiting.values()]
    const needsKinds = all.some(({ kinds }) => kinds.length > 0)
    this.#updateWatch('definitions', needsKinds, () => this.#start(definitions, definitionArrival))
    this.#updateWatch('services', needsKinds, () => this.#start(services, serviceArrival))
    this.#updateWatch(
      'namespaces',
      all.some((waits) => waits.namespaces.length > 0),
      () => this.#start(namespaces, namespaceArrival),
    )
  }

  #updateWatch(name: string, isNeeded: boolean, start: () => Informer<Arrival>): void {
    const running = this.#informers.get(name)
    if (isNeeded && !running) this.#informers.set(name, start())
    if (isNeeded || !running) return
    this.#informers.delete(name)
    void running.stop()
  }

  #start(kind: typeof definitions, project: (object: KubeObject) => Arrival): Informer<Arrival> {
    const { kube, clock, log } = this.#deps
    const informer = startInformer({ kube, clock, log }, { kind, project })
    informer.onChange(({ type, value }) => {
      if (type === 'deleted' || value === null) return
      for (const [stackId, waits] of this.#waiting) if (matches(value, waits)) void this.#confirm(stackId, waits)
    })
    return informer
  }

  async #confirm(stackId: string, waits: WaitsFor): Promise<void> {
    const { log } = this.#deps
    try {
      if (!(await this.#isServed(waits.kinds)) || this.#waiting.get(stackId) !== waits) return
      this.#waiting.delete(stackId)
      log.info('stack dependency available', { stack_id: stackId })
      this.#onArrival(stackId)
    } catch (error) {
      if (!this.#stopping.signal.aborted) log.debug('stack dependency not confirmed', { stack_id: stackId, error: toError(error) })
    } finally {
      this.#watch()
    }
  }

  /** One served kind is enough: the others may come with the stack itself. */
  async #isServed(kinds: readonly GroupKind[]): Promise<boolean> {
    const { kube, clock } = this.#deps
    const { signal } = this.#stopping
    const untilMs = clock.monotonicMs() + servedWithinMs
    for (;;) {
      await kube.discovery.refresh(signal)
      const served = new Set((await kube.discovery.all(signal)).map(groupKindText))
      if (kinds.length === 0 || kinds.some((kind) => served.has(groupKindText(kind)))) return true
      if (clock.monotonicMs() >= untilMs) return false
      await clock.sleep(lookMs, signal)
    }
  }
}

const definitionArrival = (object: KubeObject): Arrival => (isEstablished(object) ? { kind: groupKindText(readCrdKind(object)) } : null)

const serviceArrival = (object: KubeObject): Arrival =>
  textAt(findCondition(object, 'Available'), 'status') === 'True' ? { group: textAt(object, 'spec', 'group') ?? '' } : null

const namespaceArrival = ({ metadata }: KubeObject): Arrival =>
  metadata.deletionTimestamp === undefined ? { namespace: metadata.name } : null

function matches(arrival: NonNullable<Arrival>, { kinds, namespaces: names }: WaitsFor): boolean {
  if ('namespace' in arrival) return names.includes(arrival.namespace)
  return kinds.some((kind) => ('kind' in arrival ? arrival.kind === groupKindText(kind) : arrival.group === kind.group))
}
