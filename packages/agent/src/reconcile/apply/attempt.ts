// One attempt on a stack: plan, compare, apply, prune, store the inventory. The desired objects and the parent are read before.
import { gunzipSync } from 'node:zlib'
import {
  API_RETRY,
  type ApplyOutcome,
  type ApplySet,
  addPlannedMembers,
  describeRef,
  identityOf,
  type KubeObject,
  keepMembers,
  refOf,
  releaseFields,
  retrying,
} from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import type { ReconcileDeps } from '../deps.ts'
import { compareMember, type FieldChange, toDeletionChange } from '../drift/detect-drift.ts'
import { copyMembers } from '../member-index.ts'
import { type DriftResult, type Outcome, toApplyOutcome, toHeldOutcome, toProblemOutcome, toPruneOutcome } from '../outcome.ts'
import type { BuiltDesired } from '../plan/build-desired.ts'
import { listManifestChanges } from '../plan/manifest-changes.ts'
import { countUnlisted, isSameApplySet, listPresentMembers, toPendingPrune } from '../plan/members-after-attempt.ts'
import { EARLIER_MANAGERS, FIELD_MANAGER, toOwnershipLabels } from '../plan/ownership-metadata.ts'
import { isWriteStep, type Plan, planStack, type Step, type VerifyStep } from '../plan/plan.ts'
import { checkPruneGuard, toHeldMessage } from '../plan/prune-guard.ts'
import { listWarnings } from '../plan/warnings.ts'
import { combineProblems, type Problem } from '../problem.ts'
import { listLive } from '../prune/find-unlisted.ts'
import { listPruneProblems, pruneMembers, toUnprovenProblem } from '../prune/prune-members.ts'
import { type StackParent, withAttemptData } from '../stack-parents.ts'
import { uuid7 } from '../uuid7.ts'
import { applyOwned, type OwnedItem, type OwnedReport } from './apply-owned.ts'
import { type ApplyTask, isApplied, toStackState } from './apply-task.ts'
import type { ListedMembers } from './list-in-scope.ts'
import type { PrefetchedDryRuns } from './prefetch-dry-runs.ts'
import type { PrefetchedMembers } from './prefetch-members.ts'
import { writeRules } from './write-rules.ts'

/** Results of the steps before the attempt. */
export interface AttemptInput extends BuiltDesired {
  readonly parent: StackParent
  readonly prefetchedMembers: PrefetchedMembers
  readonly prefetchedDryRuns: PrefetchedDryRuns
}

export class Attempt {
  /** Its client impersonates the stack's generator. */
  readonly #deps: ReconcileDeps
  readonly #task: ApplyTask
  readonly #input: AttemptInput
  readonly #isApplied: boolean
  readonly #signal: AbortSignal

  constructor(deps: ReconcileDeps, task: ApplyTask, input: AttemptInput, signal: AbortSignal) {
    this.#deps = deps
    this.#task = task
    this.#input = input
    this.#isApplied = input.parent.state !== null && isApplied(input.parent.state, task)
    this.#signal = signal
  }

  async run(): Promise<Outcome> {
    const list = await listLive(this.#deps, this.#task.stackId, this.#input, this.#signal)
    const plan = this.#plan(list)
    // Frees the member list: the plan holds what is needed, and the following requests can take long.
    list.members = []
    const verified = await this.#verify(plan)
    const mayWrite = !this.#isApplied || this.#task.drift === 'heal'
    const steps = mayWrite ? plan.steps.filter(isWriteStep).filter((step) => !verified.same.has(step)) : []
    const drift = toDriftResult(verified.changes, mayWrite)
    const before = this.#countBefore(plan, list)
    const extendedSet = await this.#extendInventory(mayWrite ? plan : { ...plan, steps: [] }, before)
    const { report, problems } = await this.#apply(steps)
    const objects = report.outcomes.map(toApplyOutcome)
    if (problems.length > 0) return toProblemOutcome(this.#addProgress(combineProblems(problems), report.outcomes), objects)
    return this.#prune(plan, { list, wide: extendedSet, before, drift, steps, applied: report.outcomes })
  }

  #plan({ members, incomplete }: ListedMembers): Plan {
    const { verifiedVersions } = this.#deps
    const { driftCandidates, backedOff } = this.#task
    const labels = this.#labels
    const isSuspect = (key: string, live: KubeObject) =>
      !backedOff.has(key) && (verifiedVersions.mayHaveDrifted(live) || driftCandidates.has(key))
    const { parent, desired } = this.#input
    const { members: inventory } = parent.set
    return planStack({ desired, live: members, inventory, incomplete, labels, isInForce: this.#isApplied, isSuspect })
  }

  get #labels(): Record<string, string> {
    const { agentId, parents } = this.#deps
    const { stackId } = this.#task
    return toOwnershipLabels({ stackId, agentId, applySetId: parents.setId(stackId) })
  }

  /** Compares members that another writer may have changed before any write: afterwards the difference is lost. */
  async #verify(plan: Plan): Promise<{ same: ReadonlySet<Step>; changes: FieldChange[] }> {
    const steps = plan.steps.filter((step): step is VerifyStep => step.do === 'verify')
    await this.#release(steps)
    const { settings } = this.#deps
    const rules = writeRules(settings, this.#signal)
    const comparisons = await mapBounded(steps, settings.applyConcurrency, (step) => compareMember(this.#deps, step, rules), this.#signal)
    for (const [index, result] of comparisons.entries())
      if (result.is === 'same')
        this.#deps.verifiedVersions.recordVerified(steps[index]?.desired.key ?? '', result.uid, result.resourceVersion)
    const gone = plan.steps.filter((step) => step.do === 'create' && step.isGone)
    return {
      same: new Set(steps.filter((_, index) => comparisons[index]?.is === 'same')),
      changes: [
        ...comparisons.flatMap((result) => (result.is === 'differs' ? result.changes : [])),
        ...gone.map(({ desired }) => toDeletionChange(desired.object)),
      ],
    }
  }

  async #release(steps: readonly Step[]): Promise<void> {
    const managers = [FIELD_MANAGER, ...EARLIER_MANAGERS]
    for (const step of steps)
      if ('release' in step && step.release.length > 0) {
        const rule = { managers, paths: step.release, signal: this.#signal }
        await retrying(this.#deps, API_RETRY, () => releaseFields(this.#deps, refOf(step.desired.object), rule), this.#signal)
      }
  }

  /** Counted once per deployment object: an aborted attempt must not lower the base of the prune guard. */
  #countBefore({ deletes, existingCount, steps }: Plan, { incomplete }: ListedMembers): number | null {
    const { pruneBase, set } = this.#input.parent
    if (pruneBase?.object_id === this.#task.object.id) return pruneBase.standing
    const unlistedCount = countUnlisted({ inventory: set.members, steps, incomplete })
    return deletes.length + unlistedCount > 0 ? existingCount + unlistedCount : null
  }

  /** Lists new members in the inventory before they are created, so that a crash leaves no unknown object. */
  async #extendInventory(plan: Plan, before: number | null): Promise<ApplySet> {
    const { parent, generator } = this.#input
    const created = plan.steps.filter((step) => step.do === 'create').map(({ desired }) => identityOf(desired.object))
    const pruneBase = before === null ? null : { object_id: this.#task.object.id, standing: before }
    const extendedSet = withAttemptData(addPlannedMembers(parent.set, created), { pruneBase, generator })
    await this.#save(extendedSet, parent.set)
    return extendedSet
  }

  async #apply(steps: readonly Extract<Step, { item: unknown }>[]): Promise<OwnedReport> {
    const { settings, agentId, verifiedVersions, metrics } = this.#deps
    const updates = steps.filter((step) => step.do === 'update')
    // A dry run from before the release of fields describes another write.
    const isReleasing = updates.some(({ release }) => release.length > 0)
    await this.#release(updates)
    const items = steps.map((step): OwnedItem => ({ ...step.item, existing: step.desired.object }))
    const rules = {
      agentId,
      stackId: this.#task.stackId,
      adoption: settings.adoption,
      adoptFrom: settings.adoptFrom,
      isLeaving: this.#task.isLeaving,
    }
    const applied = await applyOwned(this.#deps, items, rules, {
      ...writeRules(settings, this.#signal),
      tried: isReleasing ? undefined : this.#input.prefetchedDryRuns,
      dryRun: settings.dryRun,
      concurrency: settings.applyConcurrency,
      crdWaitMs: settings.crdWaitMs,
      onOutcome: ({ action }) => metrics.applies.inc({ operation: action, result: action === 'failed' ? 'failure' : 'success' }),
    })
    for (const [index, { uid, resourceVersion }] of applied.report.outcomes.entries()) {
      const key = steps[index]?.desired.key
      if (key && uid && resourceVersion) verifiedVersions.recordVerified(key, uid, resourceVersion)
    }
    return applied
  }

  async #prune(plan: Plan, applyResult: ApplyResult): Promise<Outcome> {
    const { stackId, object } = this.#task
    const why = checkPruneGuard(plan.deletes, applyResult.before ?? plan.existingCount, this.#deps.settings.pruneGuard)
    const isHeld = why !== null && !this.#deps.approvals.isApproved(stackId, object.sequenceId)
    const pruned = isHeld ? [] : await pruneMembers(this.#deps, stackId, plan.deletes, this.#signal)
    const unproven = isHeld ? [] : plan.unproven.map((member) => toUnprovenProblem(member, this.#labels))
    const heldObjects = isHeld ? plan.deletes : []
    const objects = [...applyResult.applied.map(toApplyOutcome), ...pruned.map(toPruneOutcome), ...heldObjects.map(toHeldOutcome)]
    const { list, wide: extendedSet, steps, applied } = applyResult
    const inventory = this.#input.parent.set.members
    const remaining = [...heldObjects, ...plan.unproven]
    const members = listPresentMembers({
      inventory,
      steps: plan.steps,
      applied,
      pruned,
      unprunedMembers: remaining,
      incomplete: list.incomplete,
    })
    const pendingProblems = [...listTerminating(plan), ...listPruneProblems(pruned), ...unproven]
    if (pendingProblems.length > 0) {
      await this.#save(keepMembers(extendedSet, members), extendedSet)
      return toProblemOutcome(combineProblems(pendingProblems), objects)
    }
    const heldMessage = isHeld ? toHeldMessage(why, object.sequenceId) : null
    const remainingCount = applyResult.before ?? plan.existingCount
    const pruneBase = toPendingPrune(object.id, { members, steps: plan.steps, remainingCount })
    const set = withAttemptData(keepMembers(extendedSet, members), { pruneBase, generator: this.#input.generator })
    return this.#complete({
      wide: extendedSet,
      set,
      objects,
      applied,
      drift: applyResult.drift,
      held: heldMessage,
      written: writtenKeys(steps, applied),
    })
  }

  async #complete(end: AttemptEnd): Promise<Outcome> {
    const { clock, parents } = this.#deps
    const task = this.#task
    const { state: before } = this.#input.parent
    const { objects, drift, held: heldMessage } = end
    if (before && this.#isApplied) {
      await this.#save(end.set, end.wide)
      return { phase: 'applied', objects, event: before.event, isNew: false, changes: [], drift, held: heldMessage, warnings: [] }
    }
    const isNew = before?.deployment_object_id !== task.object.id
    const event = isNew
      ? { id: uuid7(clock.now()), type: before ? 'UPDATED' : 'APPLIED', at: new Date(clock.now()).toISOString() }
      : before.event
    const changes = before && isNew ? this.#changes(end.written) : []
    const state = toStackState(this.#deps.agentId, task, event)
    await parents.saveRevision(task.stackId, end.set, { state, manifest: task.object.content }, this.#signal)
    this.#deps.members.set(task.stackId, copyMembers(end.set.members))
    return {
      phase: 'applied',
      objects,
      event,
      isNew,
      changes,
      drift,
      held: heldMessage,
      warnings: isNew ? listWarnings(this.#input.desired, end.applied) : [],
    }
  }

  #changes(written: ReadonlySet<string>): FieldChange[] {
    const { parent, desired, placement } = this.#input
    const earlier = parent.manifest && gunzipSync(parent.manifest, { maxOutputLength: manifestBytesMax }).toString('utf8')
    return listManifestChanges(earlier, desired, written, placement)
  }

  /** Writes only if the set differs. */
  async #save(set: ApplySet, before: ApplySet): Promise<void> {
    if (isSameApplySet(set, before)) return
    await this.#deps.parents.save(this.#task.stackId, set, this.#signal)
    this.#deps.members.set(this.#task.stackId, copyMembers(set.members))
  }

  /** Adds how many objects an earlier phase applied. */
  #addProgress(problem: Problem, outcomes: readonly ApplyOutcome[]): Problem {
    const written = outcomes.filter(({ action }) => action === 'created' || action === 'configured').length
    if (written === 0) return problem
    const unappliedCount = outcomes.filter(({ action }) => action === 'failed' || action === 'skipped').length
    const total = this.#input.desired.length
    return { ...problem, message: `applied ${total - unappliedCount} of ${total} objects; ${problem.message}` }
  }
}

/** Maximum size of a stored manifest after decompression. */
const manifestBytesMax = 32 * 1024 * 1024

interface ApplyResult {
  readonly list: ListedMembers
  readonly wide: ApplySet
  readonly before: number | null
  readonly drift: DriftResult | null
  readonly steps: readonly Step[]
  /** One outcome for each of `steps`. */
  readonly applied: readonly ApplyOutcome[]
}
interface AttemptEnd {
  readonly wide: ApplySet
  readonly set: ApplySet
  readonly objects: Outcome['objects']
  readonly applied: readonly ApplyOutcome[]
  readonly drift: DriftResult | null
  readonly held: string | null
  readonly written: ReadonlySet<string>
}

const toDriftResult = (changes: readonly FieldChange[], isHealed: boolean): DriftResult | null =>
  changes.length > 0 ? { changes, isHealed } : null

const writtenKeys = (steps: readonly Step[], applied: readonly ApplyOutcome[]): ReadonlySet<string> =>
  new Set(steps.filter((_, index) => applied[index]?.action === 'configured').map(({ desired }) => desired.key))

function listTerminating(plan: Plan): Problem[] {
  const steps = plan.steps.filter((step) => step.do === 'hold')
  return steps.map(({ desired: { object } }) => ({
    phase: 'pending',
    code: 'applying',
    message: `${describeRef(refOf(object))} is being deleted; the agent creates it again afterwards`,
  }))
}
