// Stacks that cannot go on before a kind or a namespace exists, and the watches that tell when it does. Nothing is watched while
// nobody waits. The retry by time goes on beside it, so a watch that cannot be had costs only patience.
import { findCondition } from '@brokkr/kube/conditions.ts'
import { isEstablished, kindOfCrd } from '@brokkr/kube/crd.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import { type Informer, startInformer } from '@brokkr/kube/informer.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { type GroupKind, groupKindText, type KubeObject } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { WaitsFor } from './problem.ts'

export interface ArrivalDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  /** False: this agent may not look beyond its namespaces, so it watches nothing here. */
  readonly mayWatch: () => boolean
}
/** Discovery follows a definition within a moment. */
const servedWithinMs = 10_000
const lookMs = 50

const definitions = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }
const services = { apiVersion: 'apiregistration.k8s.io/v1', kind: 'APIService' }
const namespaces = { apiVersion: 'v1', kind: 'Namespace' }

/** What has come: a kind, every kind of a group, or a namespace. */
type Arrival = { readonly kind: string } | { readonly group: string } | { readonly namespace: string } | null

export class Arrivals {
  readonly #deps: ArrivalDeps
  readonly #onArrival: (stackId: string) => void
  readonly #waiting = new Map<string, WaitsFor>()
  readonly #informers = new Map<string, Informer<Arrival>>()
  readonly #stopping = new AbortController()

  constructor(deps: ArrivalDeps, onArrival: (stackId: string) => void) {
    this.#deps = deps
    this.#onArrival = onArrival
  }

  /** What the stack waits for now; undefined: nothing. */
  set(stackId: string, waits: WaitsFor | undefined): void {
    if (waits === undefined) this.#waiting.delete(stackId)
    else this.#waiting.set(stackId, waits)
    this.#watch()
  }

  get size(): number {
    return this.#waiting.size
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the agent stops'))
    this.#waiting.clear()
    await Promise.all([...this.#informers.values()].map((informer) => informer.stop()))
  }

  #watch(): void {
    if (this.#stopping.signal.aborted || !this.#deps.mayWatch()) return
    const all = [...this.#waiting.values()]
    const needsKinds = all.some(({ kinds }) => kinds.length > 0)
    this.#keep('definitions', needsKinds, () => this.#start(definitions, definitionArrival))
    this.#keep('services', needsKinds, () => this.#start(services, serviceArrival))
    this.#keep(
      'namespaces',
      all.some((waits) => waits.namespaces.length > 0),
      () => this.#start(namespaces, namespaceArrival),
    )
  }

  #keep(name: string, isNeeded: boolean, start: () => Informer<Arrival>): void {
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
      for (const [stackId, waits] of this.#waiting) if (isAwaited(value, waits)) void this.#arrived(stackId, waits)
    })
    return informer
  }

  async #arrived(stackId: string, waits: WaitsFor): Promise<void> {
    const { log } = this.#deps
    try {
      if (!(await this.#isServed(waits.kinds)) || this.#waiting.get(stackId) !== waits) return
      this.#waiting.delete(stackId)
      log.info('what the stack waited for has come', { stack_id: stackId })
      this.#onArrival(stackId)
    } catch (error) {
      if (!this.#stopping.signal.aborted) log.debug('arrival not confirmed', { stack_id: stackId, error: toError(error) })
    } finally {
      this.#watch()
    }
  }

  /** At least one of them: the others may be brought by the stack that is to come. */
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

const definitionArrival = (object: KubeObject): Arrival => (isEstablished(object) ? { kind: groupKindText(kindOfCrd(object)) } : null)

const serviceArrival = (object: KubeObject): Arrival =>
  textAt(findCondition(object, 'Available'), 'status') === 'True' ? { group: textAt(object, 'spec', 'group') ?? '' } : null

const namespaceArrival = ({ metadata }: KubeObject): Arrival =>
  metadata.deletionTimestamp === undefined ? { namespace: metadata.name } : null

function isAwaited(arrival: NonNullable<Arrival>, { kinds, namespaces: names }: WaitsFor): boolean {
  if ('namespace' in arrival) return names.includes(arrival.namespace)
  return kinds.some((kind) => ('kind' in arrival ? arrival.kind === groupKindText(kind) : arrival.group === kind.group))
}
