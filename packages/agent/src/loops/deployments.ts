// Brings every stack to its level and keeps it there: woken by news, by another hand in the cluster, by a timer. One turn looks
// at the level, carries it out, and tells what came of it. No Kubernetes detail here.
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import type { Member } from '@brokkr/kube/applyset.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { textOf } from '../follow/held-object.ts'
import type { Level } from '../follow/levels.ts'
import type { Verified } from '../follow/snapshot.ts'
import type { WantedMap } from '../follow/wanted-map.ts'
import type { AgentMetrics } from '../metrics.ts'
import { namespacesOf } from '../policy.ts'
import { Arrivals } from '../reconcile/arrivals.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import type { DriftWatch } from '../reconcile/drift.ts'
import { applyStack } from '../reconcile/execute.ts'
import type { Outbox } from '../reconcile/outbox.ts'
import { type Outcome, stopped } from '../reconcile/outcome.ts'
import { problemOfError } from '../reconcile/problem.ts'
import { removeStack } from '../reconcile/remove.ts'
import type { StackState } from '../reconcile/stack-parents.ts'
import { surveyStacks } from '../reconcile/survey.ts'
import { settledAs } from '../reconcile/untouched.ts'
import { type RefusalCode, type WritePermit, WriteRefused } from '../write-permit.ts'
import { type HistoryRecord, Removals } from './removals.ts'
import { AttemptTimeout, StackQueue, type StackQueueOptions, Superseded, type Turn } from './stack-queue.ts'
import { type Acting, StackTeller } from './stack-teller.ts'
import { Suspicions } from './suspicions.ts'

export interface DeploymentsDeps {
  readonly map: () => WantedMap
  readonly drift: () => Pick<DriftWatch, 'pause' | 'resume'>
  readonly reconcile: ReconcileDeps
  readonly permit: Pick<WritePermit, 'refusal'>
  readonly history: HistoryRecord
  readonly outbox: Outbox
  readonly agentId: AgentId
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  /** How often within so long the same field must be healed to count as a fight. */
  readonly fightMs: () => number
  /** An attempt has ended, so the stack may be doing better or worse. */
  readonly onEnded?: (stackId: StackId) => void
}
const underWayMs = 250

export class Deployments {
  readonly #deps: DeploymentsDeps
  readonly #queue: StackQueue
  readonly #teller: StackTeller
  readonly #removals: Removals
  readonly #arrivals: Arrivals
  readonly #suspicions: Suspicions

  constructor(deps: DeploymentsDeps, options: StackQueueOptions) {
    this.#deps = deps
    this.#queue = new StackQueue(deps, options)
    this.#teller = new StackTeller(deps)
    this.#suspicions = new Suspicions(deps, deps.fightMs)
    const mayWatch = () => namespacesOf(deps.reconcile.settings.policy) === null
    this.#arrivals = new Arrivals({ ...deps, kube: deps.reconcile.kube, mayWatch }, (stackId) => this.#queue.retryNow(stackId))
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
    const wants = this.#level(stackId).do === 'remove' ? 'remove' : 'apply'
    // Whoever wants what this stack still has takes it over first, so that it is never absent.
    if (wants === 'remove') for (const other of this.#standingInLine()) this.#queue.newLevel(other, 'apply')
    this.#queue.newLevel(stackId, wants)
  }

  /** A member was changed or taken away by another hand. */
  suspect(stackId: StackId, key: string): void {
    const level = this.#level(stackId)
    if (level.do !== 'run' || level.stack.drift === 'off') return
    this.#suspicions.add(stackId, [key])
    this.#queue.again(stackId, this.#suspicions.pauseMs(stackId))
  }

  /** Every member is compared again, as if each were suspected. */
  verify(stackId: StackId): void {
    const level = this.#level(stackId)
    if (level.do !== 'run' || level.stack.drift === 'off') return
    this.#suspicions.add(stackId, this.#deps.reconcile.members.keysOf(stackId))
    if (this.#suspicions.has(stackId)) this.#queue.again(stackId, this.#suspicions.pauseMs(stackId))
  }

  /** Something that held the stack back may be gone, as after an approval. */
  again(stackId: StackId): void {
    this.#queue.retryNow(stackId)
  }

  /** Stacks that wait for a look or have one. */
  get depth(): number {
    return this.#queue.depth
  }

  /** Stacks that run, with the object that is in force and their members. */
  running(): { stackId: StackId; objectId: string; rev: number; members: readonly Member[] }[] {
    const { members } = this.#deps.reconcile
    return [...this.#deps.map().levels.wanted.keys()].flatMap((stackId) => {
      const inForce = this.#teller.inForce(stackId)
      return inForce === null
        ? []
        : [{ stackId, objectId: inForce.deployment_object_id, rev: inForce.rev, members: members.membersOf(stackId) }]
    })
  }

  /** A person has approved so many removals, of which the list that is asked for now may make use. */
  allowRemovals(removals: number): void {
    this.#removals.allow(removals)
  }

  verified(list: Verified): void {
    this.#removals.take(list)
  }

  /** The slow full scan: what one list of everything proves untouched needs no look of its own. Tells how many do. */
  async resync(signal: AbortSignal): Promise<number> {
    const { reconcile, map, log, permit } = this.#deps
    const { wanted, leaving } = map().levels
    const quiet = permit.refusal === null ? [...wanted.keys()].filter((stackId) => this.#isQuiet(stackId)) : []
    const untouched = await surveyStacks(reconcile, quiet, signal).catch((error: unknown) => {
      signal.throwIfAborted()
      log.debug('no survey of the stacks', { error: toError(error) })
      return new Set<string>()
    })
    const open = [...wanted.keys(), ...leaving.keys()].filter((stackId) => !untouched.has(stackId))
    for (const stackId of open) this.#queue.again(stackId)
    return open.length
  }

  /** Brought about by this process, and nobody has given a reason to doubt it. */
  #isQuiet(stackId: StackId): boolean {
    const level = this.#level(stackId)
    if (level.do !== 'run' || level.isHeld || level.stack.drift === 'off') return false
    const { object, stack } = level
    const isDoubted = this.#suspicions.has(stackId) || this.#suspicions.resting(stackId).size > 0
    return !isDoubted && this.#deps.reconcile.clean.isSettled(stackId, settledAs({ ...stack, object }))
  }

  /** The same turn for every stack. */
  lookAtAll(): number {
    const { wanted, leaving } = this.#deps.map().levels
    const all = [...wanted.keys(), ...leaving.keys()]
    for (const stackId of all) this.#queue.again(stackId)
    return all.length
  }

  /** As many at a time as the settings say now. */
  resize(): void {
    this.#queue.resize()
  }

  /** What was right by the settings of before may be refused by those of now, and the other way round. */
  settingsChanged(): void {
    this.#deps.reconcile.clean.unsettleAll()
    this.lookAtAll()
  }

  /** Whether we may write has changed: what runs ends, or everything that was missed is looked at. */
  permitChanged(): void {
    const { refusal } = this.#deps.permit
    if (refusal !== null) this.#queue.interrupt(new WriteRefused(refusal))
    this.lookAtAll()
  }

  async stop(): Promise<void> {
    this.#removals.stop()
    await this.#arrivals.stop()
    await this.#queue.stop()
  }

  async #turn(stackId: StackId, signal: AbortSignal): Promise<Turn> {
    const level = this.#level(stackId)
    const { refusal } = this.#deps.permit
    if (refusal !== null && level.do !== 'nothing') return this.#refused(stackId, refusal)
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

  /** Nothing is tried; whoever lets us write again has everything looked at. */
  #refused(stackId: StackId, refusal: RefusalCode): Turn {
    if (refusal === 'paused' || refusal === 'observe') this.#teller.resting(stackId, this.#level(stackId), refusal)
    return { next: 'done' }
  }

  async #act(stackId: StackId, level: Acting, signal: AbortSignal): Promise<Turn> {
    const { clock, drift, metrics } = this.#deps
    const startedMs = clock.monotonicMs()
    const suspects = this.#suspicions.take(stackId)
    drift().pause(stackId)
    try {
      const tried = await this.#carryOut(stackId, level, suspects, signal)
      // What stood in its way may be on its way out by now, and waits only for this attempt.
      const isInLine = tried !== null && isOwnedByOther(tried) && this.#hasLeaving()
      const outcome = isInLine ? await this.#carryOut(stackId, level, suspects, signal) : tried
      const tookMs = clock.monotonicMs() - startedMs
      metrics.reconciles.observe({ result: outcome?.phase ?? 'superseded' }, tookMs / 1000)
      this.#suspicions.looked(stackId, outcome, suspects)
      const { refusal } = this.#deps.permit
      // What failed because we may not write any more is no failure of the stack.
      if (refusal !== null && outcome?.phase !== 'applied' && outcome?.phase !== 'removed') return this.#refused(stackId, refusal)
      if (outcome === null) return { next: 'done' }
      this.#arrivals.set(stackId, 'problem' in outcome ? outcome.problem.waitsFor : undefined)
      const turn = this.#teller.ended(stackId, level, outcome, { tookMs, fight: this.#suspicions.fight(stackId) })
      if (outcome.phase === 'removed') this.#gone(stackId, level)
      // Those over which we fight had to rest; what failed comes back by itself.
      if (outcome.phase === 'applied' && this.#suspicions.has(stackId)) this.#queue.again(stackId, this.#suspicions.pauseMs(stackId))
      return turn
    } finally {
      drift().resume(stackId)
      this.#deps.onEnded?.(stackId)
    }
  }

  /** Null: something newer came, or the agent stops. */
  async #carryOut(stackId: StackId, level: Acting, suspects: ReadonlySet<string>, signal: AbortSignal): Promise<Outcome | null> {
    const { reconcile, log, metrics, clock } = this.#deps
    const resting = this.#suspicions.resting(stackId)
    // What is done in a moment is told as done, and not first as begun.
    const telling = clock.setTimer(underWayMs, () => level.do === 'run' && this.#teller.underWay(level))
    try {
      if (level.do === 'remove') return await removeStack(reconcile, stackId, signal)
      const { stack, object } = level
      const task = {
        stackId,
        rev: stack.rev,
        drift: stack.drift,
        object,
        text: textOf(object),
        suspects,
        resting,
        isLeaving: (id: string) => this.#isLeaving(id),
      }
      return await applyStack(reconcile, task, signal)
    } catch (error) {
      if (signal.reason instanceof AttemptTimeout) return stopped({ phase: 'failed', code: 'timeout', message: signal.reason.message })
      if (signal.reason instanceof Superseded) metrics.superseded.inc()
      if (signal.aborted) return null
      log.debug('attempt failed', { stack_id: stackId, error: toError(error) })
      return stopped(problemOfError(error))
    } finally {
      telling.cancel()
    }
  }

  #isLeaving(stackId: string): boolean {
    return this.#deps.map().levels.leaving.get(stackId as StackId)?.decision === 'decided'
  }

  #hasLeaving(): boolean {
    return [...this.#deps.map().levels.leaving.values()].some(({ decision }) => decision === 'decided')
  }

  /** Stacks that could not have what another one holds. */
  #standingInLine(): StackId[] {
    const { outbox, map } = this.#deps
    return [...map().levels.wanted.keys()].filter((stackId) => outbox.newest(stackId)?.code === 'owned_by_other_stack')
  }

  /** A marker stays wanted; a stack that left is forgotten. */
  #gone(stackId: StackId, level: Acting): void {
    if (level.do === 'remove' && level.marker === null) this.#deps.map().levels.forget(stackId)
    this.#suspicions.forget(stackId)
  }

  #forget(stackId: StackId): void {
    this.#teller.forget(stackId)
    this.#suspicions.forget(stackId)
    this.#arrivals.set(stackId, undefined)
  }

  #level(stackId: StackId): Level {
    return this.#deps.map().levels.level(stackId)
  }
}

const isOwnedByOther = (outcome: Outcome): boolean => 'problem' in outcome && outcome.problem.code === 'owned_by_other_stack'
