// Brings every stack to its level and keeps it there: woken by news, by another hand in the cluster, by a timer. One turn looks
// at the level, carries it out, and tells what came of it. No Kubernetes detail here.
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { textOf } from '../follow/held-object.ts'
import type { Level } from '../follow/levels.ts'
import type { Verified } from '../follow/snapshot.ts'
import type { WantedMap } from '../follow/wanted-map.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import type { DriftWatch } from '../reconcile/drift.ts'
import { applyStack } from '../reconcile/execute.ts'
import type { Outbox } from '../reconcile/outbox.ts'
import { type Outcome, stopped } from '../reconcile/outcome.ts'
import { problemOfError } from '../reconcile/problem.ts'
import { removeStack } from '../reconcile/remove.ts'
import type { StackState } from '../reconcile/stack-parents.ts'
import { Removals } from './removals.ts'
import { AttemptTimeout, StackQueue, type StackQueueOptions, Superseded, type Turn } from './stack-queue.ts'
import { type Acting, StackTeller } from './stack-teller.ts'

export interface DeploymentsDeps {
  readonly map: () => WantedMap
  readonly drift: () => Pick<DriftWatch, 'pause' | 'resume'>
  readonly reconcile: ReconcileDeps
  readonly outbox: Outbox
  readonly agentId: AgentId
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
}
/** Between two healings of one stack: a fight with another controller must not become a loop without pause. */
const healPauseMs = 1_000

interface Suspicion {
  readonly keys: Set<string>
  healedAtMs: number
}

export class Deployments {
  readonly #deps: DeploymentsDeps
  readonly #queue: StackQueue
  readonly #teller: StackTeller
  readonly #removals: Removals
  readonly #suspicions = new Map<StackId, Suspicion>()

  constructor(deps: DeploymentsDeps, options: StackQueueOptions) {
    this.#deps = deps
    this.#queue = new StackQueue(deps, options)
    this.#teller = new StackTeller(deps)
    this.#removals = new Removals({
      ...deps,
      owned: (signal) => deps.reconcile.parents.owned(signal),
      onDecided: (stackId) => this.look(stackId),
    })
  }

  /** What stands in the cluster already; told before the start. */
  found(stackId: StackId, state: StackState): void {
    this.#teller.found(stackId, state)
  }

  start(): void {
    this.#queue.start((stackId, signal) => this.#turn(stackId as StackId, signal))
  }

  /** The level of the stack may have changed. */
  look(stackId: StackId): void {
    this.#teller.newLevel(stackId)
    this.#queue.newLevel(stackId, this.#level(stackId).do === 'remove' ? 'remove' : 'apply')
  }

  /** A member was changed or taken away by another hand. */
  suspect(stackId: StackId, key: string): void {
    const level = this.#level(stackId)
    if (level.do !== 'run' || level.stack.drift !== 'heal') return
    const suspicion = this.#suspicionOf(stackId)
    suspicion.keys.add(key)
    this.#queue.again(stackId, Math.max(0, suspicion.healedAtMs + healPauseMs - this.#deps.clock.monotonicMs()))
  }

  verified(list: Verified): void {
    this.#removals.take(list)
  }

  /** The slow full scan: the same turn for every stack. */
  lookAtAll(): number {
    const { wanted, leaving } = this.#deps.map().levels
    const all = [...wanted.keys(), ...leaving.keys()]
    for (const stackId of all) this.#queue.again(stackId)
    return all.length
  }

  async stop(): Promise<void> {
    this.#removals.stop()
    await this.#queue.stop()
  }

  async #turn(stackId: StackId, signal: AbortSignal): Promise<Turn> {
    const level = this.#level(stackId)
    switch (level.do) {
      case 'nothing':
        this.#forget(stackId)
        return { next: 'done' }
      case 'hold':
        this.#teller.held(stackId, level.rev)
        return { next: 'done' }
      case 'run':
      case 'remove':
        return this.#act(stackId, level, signal)
      default:
        return level satisfies never
    }
  }

  async #act(stackId: StackId, level: Acting, signal: AbortSignal): Promise<Turn> {
    const { clock, drift, metrics } = this.#deps
    const startedMs = clock.monotonicMs()
    const suspects = this.#takeSuspects(stackId)
    drift().pause(stackId)
    try {
      const outcome = await this.#carryOut(stackId, level, suspects, signal)
      const tookMs = clock.monotonicMs() - startedMs
      metrics.reconciles.observe({ result: outcome?.phase ?? 'superseded' }, tookMs / 1000)
      if (suspects.size > 0) this.#looked(stackId, outcome, suspects)
      if (outcome === null) return { next: 'done' }
      const turn = this.#teller.ended(stackId, level, outcome, tookMs)
      if (outcome.phase === 'removed') this.#gone(stackId, level)
      return turn
    } finally {
      drift().resume(stackId)
    }
  }

  /** Null: something newer came, or the agent stops. */
  async #carryOut(stackId: StackId, level: Acting, suspects: ReadonlySet<string>, signal: AbortSignal): Promise<Outcome | null> {
    const { reconcile, log, metrics } = this.#deps
    try {
      if (level.do === 'remove') return await removeStack(reconcile, stackId, signal)
      this.#teller.underWay(level)
      const { stack, object } = level
      return await applyStack(reconcile, { stackId, rev: stack.rev, drift: stack.drift, object, text: textOf(object), suspects }, signal)
    } catch (error) {
      if (signal.reason instanceof AttemptTimeout) return stopped({ phase: 'failed', code: 'timeout', message: signal.reason.message })
      if (signal.reason instanceof Superseded) metrics.superseded.inc()
      if (signal.aborted) return null
      log.debug('attempt failed', { stack_id: stackId, error: toError(error) })
      return stopped(problemOfError(error))
    }
  }

  #looked(stackId: StackId, outcome: Outcome | null, suspects: ReadonlySet<string>): void {
    const { clock, log, metrics } = this.#deps
    const suspicion = this.#suspicionOf(stackId)
    if (outcome?.phase !== 'applied') for (const key of suspects) suspicion.keys.add(key)
    if (outcome === null) return
    suspicion.healedAtMs = clock.monotonicMs()
    const isHealed = outcome.objects.some(({ operation }) => operation === 'created' || operation === 'updated')
    metrics.drifts.inc({ result: outcome.phase !== 'applied' ? 'failed' : isHealed ? 'healed' : 'none' })
    if (isHealed) log.info('healed', { stack_id: stackId, suspects: suspects.size, phase: outcome.phase })
  }

  /** A marker stays wanted; a stack that left is forgotten. */
  #gone(stackId: StackId, level: Acting): void {
    if (level.do === 'remove' && level.marker === null) this.#deps.map().levels.forget(stackId)
    this.#suspicions.delete(stackId)
  }

  #forget(stackId: StackId): void {
    this.#teller.forget(stackId)
    this.#suspicions.delete(stackId)
  }

  #takeSuspects(stackId: StackId): ReadonlySet<string> {
    const keys = this.#suspicions.get(stackId)?.keys
    const taken = new Set(keys)
    keys?.clear()
    return taken
  }

  #level(stackId: StackId): Level {
    return this.#deps.map().levels.level(stackId)
  }

  #suspicionOf(stackId: StackId): Suspicion {
    const known = this.#suspicions.get(stackId)
    if (known) return known
    const fresh: Suspicion = { keys: new Set(), healedAtMs: Number.NEGATIVE_INFINITY }
    this.#suspicions.set(stackId, fresh)
    return fresh
  }
}
