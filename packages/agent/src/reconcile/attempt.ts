// One attempt on a stack, from the plan to the inventory. Desired state is settled before it starts; the parent was just read.
import { gunzipSync } from 'node:zlib'
import type { ApplyOutcome } from '@brokkr/kube/apply-object.ts'
import { type ApplySet, shrink, widen } from '@brokkr/kube/applyset.ts'
import { describeRef, identityOf, type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { releaseFields } from '@brokkr/kube/release-fields.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { applyOwned, type OwnedItem, type OwnedReport } from './apply-owned.ts'
import { type ApplyTask, isInForce, stateOf } from './apply-task.ts'
import type { ReconcileDeps } from './deps.ts'
import type { EarlyList } from './early-list.ts'
import type { EarlyTrials } from './early-trials.ts'
import { basisAfter, isSameSet, presentMembers, unseenLeft } from './inventory.ts'
import { type ListedMembers, listInScope } from './list-in-scope.ts'
import { EARLIER_MANAGERS, FIELD_MANAGER, stableLabels } from './marks.ts'
import { withOwnTexts } from './member-index.ts'
import { type DriftFound, type Outcome, stopped, touchedByApply, touchedByPrune, touchedHeld } from './outcome.ts'
import { isWritten, type Plan, planStack, type Step, type VerifyStep } from './plan.ts'
import { combine, type Problem } from './problem.ts'
import { guardPrune, heldMessage } from './prune-guard.ts'
import { pruneMembers, pruneProblems } from './prune-members.ts'
import { revisionChanges } from './revision-changes.ts'
import { type StackParent, withNotes } from './stack-parents.ts'
import { uuid7 } from './uuid7.ts'
import { type FieldChange, goneChange, verifyMember } from './verify.ts'
import type { Wanted } from './wanted.ts'
import { warningsOf } from './warnings.ts'
import { writeRules } from './write-rules.ts'

/** What was settled before the first request about a member. */
export interface Settled extends Wanted {
  readonly parent: StackParent
  readonly early: EarlyList
  readonly trials: EarlyTrials
}

export class Attempt {
  /** Its client acts as the stack's identity. */
  readonly #deps: ReconcileDeps
  readonly #task: ApplyTask
  readonly #settled: Settled
  readonly #isInForce: boolean
  readonly #signal: AbortSignal

  constructor(deps: ReconcileDeps, task: ApplyTask, settled: Settled, signal: AbortSignal) {
    this.#deps = deps
    this.#task = task
    this.#settled = settled
    this.#isInForce = settled.parent.state !== null && isInForce(settled.parent.state, task)
    this.#signal = signal
  }

  async run(): Promise<Outcome> {
    const { parent, early } = this.#settled
    const list = await (early(parent.set) ?? listInScope(this.#deps, parent.set, this.#signal))
    const plan = this.#plan(list)
    // The plan has what it needs of them. There may be thousands, and requests take their time.
    list.members = []
    const verified = await this.#verify(plan)
    const mayWrite = !this.#isInForce || this.#task.drift === 'heal'
    const steps = mayWrite ? plan.steps.filter(isWritten).filter((step) => !verified.same.has(step)) : []
    const drift = driftOf(verified.changes, mayWrite)
    const before = this.#standingBefore(plan, list)
    const wide = await this.#widen(mayWrite ? plan : { ...plan, steps: [] }, before)
    const { report, problems } = await this.#apply(steps)
    const objects = report.outcomes.map(touchedByApply)
    if (problems.length > 0) return stopped(this.#withCount(combine(problems), report.outcomes), objects)
    return this.#prune(plan, { list, wide, before, drift, steps, applied: report.outcomes })
  }

  #plan({ members }: ListedMembers): Plan {
    const { clean, parents } = this.#deps
    const { stackId, suspects, resting } = this.#task
    const labels = stableLabels({ stackId, agentId: this.#deps.agentId, applySetId: parents.setId(stackId) })
    const isSuspect = (key: string, live: KubeObject) => !resting.has(key) && (clean.mayBeTouched(live) || suspects.has(key))
    const { parent, desired } = this.#settled
    return planStack({ desired, live: members, inventory: parent.set.members, labels, isInForce: this.#isInForce, isSuspect })
  }

  /** What another hand has touched is compared before anything is written: how it differs cannot be told afterwards. */
  async #verify(plan: Plan): Promise<{ same: ReadonlySet<Step>; changes: FieldChange[] }> {
    const steps = plan.steps.filter((step): step is VerifyStep => step.do === 'verify')
    await this.#release(steps)
    const { settings } = this.#deps
    const rules = writeRules(settings, this.#signal)
    const found = await mapBounded(steps, settings.applyConcurrency, (step) => verifyMember(this.#deps, step, rules), this.#signal)
    for (const [index, result] of found.entries())
      if (result.is === 'same') this.#deps.clean.mark(steps[index]?.desired.key ?? '', result.uid, result.resourceVersion)
    const gone = plan.steps.filter((step) => step.do === 'create' && step.isGone)
    return {
      same: new Set(steps.filter((_, index) => found[index]?.is === 'same')),
      changes: [
        ...found.flatMap((result) => (result.is === 'differs' ? result.changes : [])),
        ...gone.map(({ desired }) => goneChange(desired.object)),
      ],
    }
  }

  async #release(steps: readonly Step[]): Promise<void> {
    const managers = [FIELD_MANAGER, ...EARLIER_MANAGERS]
    for (const step of steps)
      if ('release' in step && step.release.length > 0)
        await releaseFields(this.#deps, refOf(step.desired.object), { managers, paths: step.release, signal: this.#signal })
  }

  /** Counted once per revision: an attempt that was cut short must not make the next one look harmless. */
  #standingBefore({ deletes, standing, steps }: Plan, { incomplete }: ListedMembers): number | null {
    const { basis, set } = this.#settled.parent
    if (basis?.object_id === this.#task.object.id) return basis.standing
    const unseen = unseenLeft({ inventory: set.members, steps, incomplete })
    return deletes.length + unseen > 0 ? standing + unseen : null
  }

  /** What is about to exist is listed before it does. */
  async #widen(plan: Plan, before: number | null): Promise<ApplySet> {
    const { parent, tenant } = this.#settled
    const created = plan.steps.filter((step) => step.do === 'create').map(({ desired }) => identityOf(desired.object))
    const basis = before === null ? null : { object_id: this.#task.object.id, standing: before }
    const wide = withNotes(widen(parent.set, created), { basis, tenant })
    await this.#save(wide, parent.set)
    return wide
  }

  async #apply(steps: readonly Extract<Step, { item: unknown }>[]): Promise<OwnedReport> {
    const { settings, agentId, clean, metrics } = this.#deps
    const updates = steps.filter((step) => step.do === 'update')
    // A trial that was made before fields are let go tells of another write.
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
      tried: isReleasing ? undefined : this.#settled.trials,
      dryRun: settings.dryRun,
      concurrency: settings.applyConcurrency,
      crdWaitMs: settings.crdWaitMs,
      onOutcome: ({ action }) => metrics.applies.inc({ operation: action, result: action === 'failed' ? 'failure' : 'success' }),
    })
    for (const [index, { uid, resourceVersion }] of applied.report.outcomes.entries()) {
      const key = steps[index]?.desired.key
      if (key && uid && resourceVersion) clean.mark(key, uid, resourceVersion)
    }
    return applied
  }

  async #prune(plan: Plan, done: Done): Promise<Outcome> {
    const { stackId, object } = this.#task
    const why = guardPrune(plan.deletes, done.before ?? plan.standing, this.#deps.settings.pruneGuard)
    const isHeld = why !== null && !this.#deps.approvals.isApproved(stackId, object.sequenceId)
    const pruned = isHeld ? [] : await pruneMembers(this.#deps, stackId, plan.deletes, this.#signal)
    const spared = isHeld ? plan.deletes : []
    const objects = [...done.applied.map(touchedByApply), ...pruned.map(touchedByPrune), ...spared.map(touchedHeld)]
    const { list, wide, steps, applied } = done
    const inventory = this.#settled.parent.set.members
    const members = presentMembers({ inventory, steps: plan.steps, applied, pruned, spared, incomplete: list.incomplete })
    const waits = [...terminating(plan), ...pruneProblems(pruned)]
    if (waits.length > 0) {
      await this.#save(shrink(wide, members), wide)
      return stopped(combine(waits), objects)
    }
    const held = isHeld ? heldMessage(why, object.sequenceId) : null
    const basis = basisAfter(object.id, { members, steps: plan.steps, standing: done.before ?? plan.standing })
    const set = withNotes(shrink(wide, members), { basis, tenant: this.#settled.tenant })
    return this.#complete({ wide, set, objects, applied, drift: done.drift, held, written: writtenKeys(steps, applied) })
  }

  async #complete(end: End): Promise<Outcome> {
    const { clock, parents } = this.#deps
    const task = this.#task
    const { state: before } = this.#settled.parent
    const { objects, drift, held } = end
    if (before && this.#isInForce) {
      await this.#save(end.set, end.wide)
      return { phase: 'applied', objects, event: before.event, isNew: false, changes: [], drift, held, warnings: [] }
    }
    const isNew = before?.deployment_object_id !== task.object.id
    const event = isNew
      ? { id: uuid7(clock.now()), type: before ? 'UPDATED' : 'APPLIED', at: new Date(clock.now()).toISOString() }
      : before.event
    const changes = before && isNew ? this.#changes(end.written) : []
    const state = stateOf(this.#deps.agentId, task, event)
    await parents.saveRevision(task.stackId, end.set, { state, manifest: task.object.content }, this.#signal)
    this.#deps.members.set(task.stackId, withOwnTexts(end.set.members))
    return {
      phase: 'applied',
      objects,
      event,
      isNew,
      changes,
      drift,
      held,
      warnings: isNew ? warningsOf(this.#settled.desired, end.applied) : [],
    }
  }

  #changes(written: ReadonlySet<string>): FieldChange[] {
    const { parent, desired, places } = this.#settled
    const earlier = parent.manifest && gunzipSync(parent.manifest, { maxOutputLength: manifestBytesMax }).toString('utf8')
    return revisionChanges(earlier, desired, written, places)
  }

  /** Only when something differs: a look that finds everything right writes nothing. */
  async #save(set: ApplySet, before: ApplySet): Promise<void> {
    if (isSameSet(set, before)) return
    await this.#deps.parents.save(this.#task.stackId, set, this.#signal)
    this.#deps.members.set(this.#task.stackId, withOwnTexts(set.members))
  }

  /** Where a later phase failed, what stands already is worth knowing. */
  #withCount(problem: Problem, outcomes: readonly ApplyOutcome[]): Problem {
    const written = outcomes.filter(({ action }) => action === 'created' || action === 'configured').length
    if (written === 0) return problem
    const open = outcomes.filter(({ action }) => action === 'failed' || action === 'skipped').length
    const total = this.#settled.desired.length
    return { ...problem, message: `applied ${total - open} of ${total} objects; ${problem.message}` }
  }
}

/** As much as is ever held of one object. */
const manifestBytesMax = 32 * 1024 * 1024

interface Done {
  readonly list: ListedMembers
  readonly wide: ApplySet
  readonly before: number | null
  readonly drift: DriftFound | null
  readonly steps: readonly Step[]
  /** One for each of `steps`. */
  readonly applied: readonly ApplyOutcome[]
}
interface End {
  readonly wide: ApplySet
  readonly set: ApplySet
  readonly objects: Outcome['objects']
  readonly applied: readonly ApplyOutcome[]
  readonly drift: DriftFound | null
  readonly held: string | null
  readonly written: ReadonlySet<string>
}

const driftOf = (changes: readonly FieldChange[], isHealed: boolean): DriftFound | null =>
  changes.length > 0 ? { changes, isHealed } : null

const writtenKeys = (steps: readonly Step[], applied: readonly ApplyOutcome[]): ReadonlySet<string> =>
  new Set(steps.filter((_, index) => applied[index]?.action === 'configured').map(({ desired }) => desired.key))

function terminating(plan: Plan): Problem[] {
  const steps = plan.steps.filter((step) => step.do === 'hold')
  return steps.map(({ desired: { object } }) => ({
    phase: 'pending',
    code: 'applying',
    message: `${describeRef(refOf(object))} is being deleted by somebody else; it is made anew once it is gone`,
  }))
}
