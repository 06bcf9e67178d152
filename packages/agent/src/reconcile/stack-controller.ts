// Keeps every stack in its desired state. Changes of the desired state, drift, timers and approvals queue a stack; one attempt at a
// time reads its desired action, reconciles it and reports the outcome. Requests to Kubernetes are made by reconcileStack and removeStack.
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import type { Member } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import { readManifest } from '../desired-state/cached-manifest.ts'
import type { DesiredAction } from '../desired-state/desired-state.ts'
import type { VerifiedSnapshot } from '../desired-state/snapshot.ts'
import type { SyncState } from '../desired-state/sync-state.ts'
import type { AgentMetrics } from '../metrics.ts'
import { listAllowedNamespaces } from '../policy/policy.ts'
import { type RefusalCode, type WritePermit, WriteRefused } from '../policy/write-permit.ts'
import type { Outbox } from '../reporting/outbox.ts'
import { type ActiveAction, StackReporter } from '../reporting/stack-reporter.ts'
import type { ApplyTask } from './apply/apply-task.ts'
import { toVersionKey } from './apply/unchanged-check.ts'
import { DependencyWatch } from './dependency-watch.ts'
import type { ReconcileDeps } from './deps.ts'
import { DriftCandidates } from './drift/drift-candidates.ts'
import type { DriftWatch } from './drift/drift-watch.ts'
import { findUnchangedStacks } from './drift/resync-list.ts'
import { type Outcome, toProblemOutcome } from './outcome.ts'
import { toErrorProblem } from './problem.ts'
import { removeStack } from './prune/remove-stack.ts'
import { type EpochRecord, SnapshotRemovals } from './prune/snapshot-removals.ts'
import { reconcileStack } from './reconcile-stack.ts'
import type { StackState } from './stack-parents.ts'
import { type AttemptResult, AttemptTimeout, StackQueue, type StackQueueOptions, Superseded } from './stack-queue.ts'

export interface StackControllerDeps {
  readonly state: SyncState
  readonly drift: Pick<DriftWatch, 'pause' | 'resume'>
  readonly reconcile: ReconcileDeps
  readonly permit: Pick<WritePermit, 'refusal'>
  readonly epochRecord: EpochRecord
  readonly outbox: Outbox
  readonly agentId: AgentId
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  /** Window in which repeated healing of the same field counts as a conflict with another writer. */
  readonly conflictWindowMs: () => number
}
/** A short attempt sends one report, its outcome, instead of `applying` and the outcome. */
const applyingReportMs = 250

export class StackController {
  readonly #deps: StackControllerDeps
  readonly #queue: StackQueue
  readonly #reporter: StackReporter
  readonly #removals: SnapshotRemovals
  readonly #dependencies: DependencyWatch
  readonly #driftCandidates: DriftCandidates
  readonly #attemptListeners = new Set<(stackId: StackId) => void>()

  constructor(deps: StackControllerDeps, options: StackQueueOptions) {
    this.#deps = deps
    this.#queue = new StackQueue(deps, options)
    this.#reporter = new StackReporter(deps)
    this.#driftCandidates = new DriftCandidates(deps, deps.conflictWindowMs)
    const mayWatch = () => listAllowedNamespaces(deps.reconcile.settings.policy) === null
    this.#dependencies = new DependencyWatch({ ...deps, kube: deps.reconcile.kube, mayWatch }, (stackId) => this.#queue.retryNow(stackId))
    this.#removals = new SnapshotRemovals({
      ...deps,
      owned: (signal) => deps.reconcile.parents.owned(signal),
      onDecided: (stackId) => this.reconcile(stackId),
    })
  }

  /** Called after every attempt, with any outcome. */
  onAttemptEnd(listener: (stackId: StackId) => void): void {
    this.#attemptListeners.add(listener)
  }

  /** Sets the applied object that the cluster stores for the stack. Called before the start. */
  setApplied(stackId: StackId, state: StackState): void {
    this.#reporter.setApplied(stackId, state)
  }

  start(): void {
    this.#queue.start((stackId, signal) => this.#reconcile(stackId as StackId, signal))
  }

  /** The desired action of the stack may have changed. */
  reconcile(stackId: StackId): void {
    this.#reporter.resetFailures(stackId)
    const action = this.#getAction(stackId).do === 'remove' ? 'remove' : 'apply'
    // Stacks that wait for an object of this one are queued first: they take it over before the removal can delete it.
    if (action === 'remove') for (const waiting of this.#listBlockedByOwner()) this.#queue.enqueueChange(waiting, 'apply')
    this.#queue.enqueueChange(stackId, action)
  }

  /** Another writer may have changed or deleted a member. */
  addDriftCandidate(stackId: StackId, key: string): void {
    if (!this.#detectsDrift(stackId)) return
    this.#driftCandidates.add(stackId, [key])
    this.#queue.enqueue(stackId, this.#driftCandidates.pauseMs(stackId))
  }

  /** Compares every member of the stack with its desired state. */
  verify(stackId: StackId): void {
    if (!this.#detectsDrift(stackId)) return
    this.#driftCandidates.add(stackId, this.#deps.reconcile.members.listKeys(stackId))
    if (this.#driftCandidates.has(stackId)) this.#queue.enqueue(stackId, this.#driftCandidates.pauseMs(stackId))
  }

  /** Retries at once, because the cause of the failure may be gone. */
  retry(stackId: StackId): void {
    this.#queue.retryNow(stackId)
  }

  /** Number of stacks that are queued or being reconciled. */
  get depth(): number {
    return this.#queue.depth
  }

  /** Stacks with their applied object and members. */
  listApplied(): { stackId: StackId; objectId: string; rev: number; members: readonly Member[] }[] {
    const { members } = this.#deps.reconcile
    return [...this.#deps.state.desired.stacks.keys()].flatMap((stackId) => {
      const applied = this.#reporter.getApplied(stackId)
      return applied === null
        ? []
        : [{ stackId, objectId: applied.deployment_object_id, rev: applied.rev, members: members.listMembers(stackId) }]
    })
  }

  /** An admin approved this number of removals for the snapshot that is requested now. */
  allowRemovals(removals: number): void {
    this.#removals.allow(removals)
  }

  applySnapshot(snapshot: VerifiedSnapshot): void {
    this.#removals.take(snapshot)
  }

  /** Full scan. One list per kind proves which stacks are unchanged; queues all others and returns their number. */
  async resync(signal: AbortSignal): Promise<number> {
    const { reconcile, state, log, permit } = this.#deps
    const { stacks, removals } = state.desired
    const candidates = permit.refusal === null ? [...stacks.keys()].filter((stackId) => this.#isVerified(stackId)) : []
    const unchanged = await findUnchangedStacks(reconcile, candidates, signal).catch((error: unknown) => {
      signal.throwIfAborted()
      log.debug('resync list failed', { error: toError(error) })
      return new Set<string>()
    })
    const stackIds = [...stacks.keys(), ...removals.keys()].filter((stackId) => !unchanged.has(stackId))
    for (const stackId of stackIds) this.#queue.enqueue(stackId)
    return stackIds.length
  }

  reconcileAll(): number {
    const { stacks, removals } = this.#deps.state.desired
    const stackIds = [...stacks.keys(), ...removals.keys()]
    for (const stackId of stackIds) this.#queue.enqueue(stackId)
    return stackIds.length
  }

  /** Applies a changed `stack_concurrency`. */
  resize(): void {
    this.#queue.resize()
  }

  /** New settings can permit or reject other objects, so every stack is reconciled. */
  settingsChanged(): void {
    this.#deps.reconcile.verifiedVersions.clearAllApplied()
    this.reconcileAll()
  }

  /** Aborts running attempts if writing is no longer permitted; otherwise reconciles missed changes. */
  permitChanged(): void {
    const { refusal } = this.#deps.permit
    if (refusal !== null) this.#queue.interrupt(new WriteRefused(refusal))
    this.reconcileAll()
  }

  async stop(): Promise<void> {
    this.#removals.stop()
    await this.#dependencies.stop()
    await this.#queue.stop()
  }

  async #reconcile(stackId: StackId, signal: AbortSignal): Promise<AttemptResult> {
    const action = this.#getAction(stackId)
    const { refusal } = this.#deps.permit
    if (action.do === 'nothing') return this.#forget(stackId)
    if (refusal !== null) return this.#reportRefusal(stackId, refusal)
    if (action.do === 'hold') return this.#reportHeld(stackId, action.rev)
    const { clock, drift, metrics } = this.#deps
    const startedMs = clock.monotonicMs()
    const candidates = this.#driftCandidates.take(stackId)
    const timer = clock.setTimer(applyingReportMs, () => action.do === 'run' && this.#reporter.reportApplying(action))
    drift.pause(stackId)
    try {
      const outcome = await this.#applyOrRemove(stackId, action, candidates, signal)
      const tookMs = clock.monotonicMs() - startedMs
      metrics.reconciles.observe({ result: outcome?.phase ?? 'superseded' }, tookMs / 1000)
      this.#driftCandidates.recordOutcome(stackId, outcome, candidates)
      return this.#reportOutcome(stackId, action, outcome, tookMs)
    } finally {
      timer.cancel()
      drift.resume(stackId)
      for (const listener of this.#attemptListeners) listener(stackId)
    }
  }

  /** Returns null if a newer desired action arrived or the agent is stopping. */
  async #applyOrRemove(
    stackId: StackId,
    action: ActiveAction,
    candidates: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<Outcome | null> {
    const { reconcile } = this.#deps
    try {
      if (action.do === 'remove') return await removeStack(reconcile, stackId, signal)
      const task = this.#toTask(action, candidates)
      const outcome = await reconcileStack(reconcile, task, signal)
      // The stack that owns the object may be leaving by now and waits only for this attempt.
      return isOwnedByOther(outcome) && this.#hasLeaving() ? await reconcileStack(reconcile, task, signal) : outcome
    } catch (error) {
      return this.#toFailure(stackId, error, signal)
    }
  }

  #toTask({ stack, object }: Extract<ActiveAction, { do: 'run' }>, driftCandidates: ReadonlySet<string>): ApplyTask {
    return {
      stackId: stack.stackId,
      rev: stack.rev,
      drift: stack.drift,
      object,
      text: readManifest(object),
      driftCandidates,
      backedOff: this.#driftCandidates.listBackedOff(stack.stackId),
      isLeaving: (id: string) => this.#isLeaving(id),
    }
  }

  #toFailure(stackId: StackId, error: unknown, { aborted, reason }: AbortSignal): Outcome | null {
    if (reason instanceof AttemptTimeout) return toProblemOutcome({ phase: 'failed', code: 'timeout', message: reason.message })
    if (reason instanceof Superseded) this.#deps.metrics.superseded.inc()
    if (aborted) return null
    this.#deps.log.debug('attempt failed', { stack_id: stackId, error: toError(error) })
    return toProblemOutcome(toErrorProblem(error))
  }

  #reportOutcome(stackId: StackId, action: ActiveAction, outcome: Outcome | null, tookMs: number): AttemptResult {
    const { refusal } = this.#deps.permit
    // An attempt that failed because writing is no longer permitted is not a failure of the stack.
    if (refusal !== null && outcome?.phase !== 'applied' && outcome?.phase !== 'removed') return this.#reportRefusal(stackId, refusal)
    if (outcome === null) return { next: 'done' }
    this.#dependencies.set(stackId, 'problem' in outcome ? outcome.problem.waitsFor : undefined)
    const conflict = this.#driftCandidates.describeConflict(stackId)
    const result = this.#reporter.reportOutcome(stackId, action, outcome, { tookMs, conflict })
    if (outcome.phase === 'removed') this.#completeRemoval(stackId, action)
    // Requeues members in drift backoff. The queue retries failed stacks.
    if (outcome.phase === 'applied' && this.#driftCandidates.has(stackId))
      this.#queue.enqueue(stackId, this.#driftCandidates.pauseMs(stackId))
    return result
  }

  /** No retry: a changed permit reconciles every stack. */
  #reportRefusal(stackId: StackId, refusal: RefusalCode): AttemptResult {
    if (refusal === 'paused' || refusal === 'observe') this.#reporter.reportRefused(stackId, this.#getAction(stackId), refusal)
    return { next: 'done' }
  }

  #reportHeld(stackId: StackId, rev: number): AttemptResult {
    this.#reporter.reportHeld(stackId, rev)
    return { next: 'done' }
  }

  /** Keeps a stack with a deletion marker in the desired state and drops a stack that left it. */
  #completeRemoval(stackId: StackId, action: ActiveAction): void {
    if (action.do === 'remove' && action.marker === null) this.#deps.state.desired.forget(stackId)
    this.#driftCandidates.forget(stackId)
  }

  #forget(stackId: StackId): AttemptResult {
    this.#reporter.forget(stackId)
    this.#driftCandidates.forget(stackId)
    this.#dependencies.set(stackId, undefined)
    return { next: 'done' }
  }

  /** This process applied the stack, and no drift is suspected. */
  #isVerified(stackId: StackId): boolean {
    const action = this.#getAction(stackId)
    if (action.do !== 'run' || action.isHeld || action.stack.drift === 'off') return false
    const { object, stack } = action
    const mayHaveDrifted = this.#driftCandidates.has(stackId) || this.#driftCandidates.listBackedOff(stackId).size > 0
    return !mayHaveDrifted && this.#deps.reconcile.verifiedVersions.isApplied(stackId, toVersionKey({ ...stack, object }))
  }

  #detectsDrift(stackId: StackId): boolean {
    const action = this.#getAction(stackId)
    return action.do === 'run' && action.stack.drift !== 'off'
  }

  #isLeaving(stackId: string): boolean {
    return this.#deps.state.desired.removals.get(stackId as StackId)?.decision === 'decided'
  }

  #hasLeaving(): boolean {
    return [...this.#deps.state.desired.removals.values()].some(({ decision }) => decision === 'decided')
  }

  /** Stacks whose last attempt failed because another stack owns one of their objects. */
  #listBlockedByOwner(): StackId[] {
    const { outbox, state } = this.#deps
    return [...state.desired.stacks.keys()].filter((stackId) => outbox.newest(stackId)?.code === 'owned_by_other_stack')
  }

  #getAction(stackId: StackId): DesiredAction {
    return this.#deps.state.desired.getAction(stackId)
  }
}

const isOwnedByOther = (outcome: Outcome): boolean => 'problem' in outcome && outcome.problem.code === 'owned_by_other_stack'
