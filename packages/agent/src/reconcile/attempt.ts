// One attempt on a stack, from the plan to the inventory. Desired state is settled before it starts; the parent was just read.
import { type ApplySet, type Member, shrink, widen } from '@brokkr/kube/applyset.ts'
import { listMembers, type MemberList } from '@brokkr/kube/applyset-store.ts'
import { describeRef, identityOf, type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { applyOwned, type OwnedReport } from './apply-owned.ts'
import { seenOf } from './clean-marks.ts'
import type { ReconcileDeps } from './deps.ts'
import type { DesiredObject } from './desired.ts'
import { isSameSet, presentMembers } from './inventory.ts'
import { EARLIER_MANAGERS, FIELD_MANAGER, stableLabels } from './marks.ts'
import { type Outcome, stopped, touchedByApply, touchedByPrune } from './outcome.ts'
import { isWritten, type Plan, planStack } from './plan.ts'
import { combine, type Problem } from './problem.ts'
import { pruneMembers, pruneProblems } from './prune-members.ts'
import { scrub } from './scrub.ts'
import type { StackParent, StackState } from './stack-parents.ts'
import { uuid7 } from './uuid7.ts'

export interface ApplyTask {
  readonly stackId: string
  readonly rev: number
  readonly drift: string
  readonly object: { readonly id: string; readonly sequenceId: number; readonly checksum: string; readonly content: Buffer }
  readonly text: string
  /** Members that another hand may have changed. */
  readonly suspects: ReadonlySet<string>
}

export class Attempt {
  readonly #deps: ReconcileDeps
  readonly #task: ApplyTask
  readonly #parent: StackParent
  readonly #desired: readonly DesiredObject[]
  readonly #signal: AbortSignal

  constructor(deps: ReconcileDeps, task: ApplyTask, parent: StackParent, desired: readonly DesiredObject[], signal: AbortSignal) {
    this.#deps = deps
    this.#task = task
    this.#parent = parent
    this.#desired = desired
    this.#signal = signal
  }

  async run(): Promise<Outcome> {
    const list = await listMembers(this.#deps, this.#parent.set, {
      signal: this.#signal,
      concurrency: this.#deps.settings.applyConcurrency,
    })
    const plan = this.#plan(list)
    const wide = await this.#widen(plan)
    const { report, problems } = await this.#apply(plan)
    const objects = report.outcomes.map(touchedByApply)
    if (problems.length > 0) return stopped(this.#readable(combine(problems)), objects)
    const pruned = await pruneMembers(this.#deps, this.#task.stackId, plan.deletes, this.#signal)
    const all = [...objects, ...pruned.map(touchedByPrune)]
    const members = presentMembers({
      inventory: this.#parent.set.members,
      steps: plan.steps,
      applied: report.outcomes,
      pruned,
      incomplete: list.incomplete,
    })
    const waits = [...this.#terminating(plan), ...pruneProblems(pruned)]
    if (waits.length === 0) return this.#complete(wide, members, all)
    await this.#save(shrink(wide, members), wide)
    return stopped(combine(waits), all)
  }

  #plan({ members }: MemberList): Plan {
    const { clean, parents } = this.#deps
    const { stackId, suspects } = this.#task
    const labels = stableLabels({ stackId, agentId: this.#deps.agentId, applySetId: parents.setId(stackId) })
    const isSuspect = (key: string, live: KubeObject) => clean.isSuspect(seenOf(live)) || suspects.has(key)
    return planStack({ desired: this.#desired, live: members, inventory: this.#parent.set.members, labels, isSuspect })
  }

  /** What is about to exist is listed before it does. */
  async #widen(plan: Plan): Promise<ApplySet> {
    const { set } = this.#parent
    const created = plan.steps.filter((step) => step.do === 'create').map(({ desired }) => identityOf(desired.object))
    const wide = widen(set, created)
    await this.#save(wide, set)
    return wide
  }

  async #apply(plan: Plan): Promise<OwnedReport> {
    const { settings, agentId } = this.#deps
    const items = plan.steps.filter(isWritten).map((step) => step.item)
    const rules = { agentId, stackId: this.#task.stackId, adoption: settings.adoption }
    const applied = await applyOwned(this.#deps, items, rules, {
      fieldManager: FIELD_MANAGER,
      migrateFrom: EARLIER_MANAGERS,
      fieldValidation: settings.fieldValidation,
      dryRun: settings.dryRun,
      concurrency: settings.applyConcurrency,
      crdWaitMs: settings.crdWaitMs,
      signal: this.#signal,
      onOutcome: ({ action }) => this.#deps.metrics.applies.inc({ operation: action, result: action === 'failed' ? 'failure' : 'success' }),
    })
    const written = plan.steps.filter(isWritten)
    for (const [index, { uid, resourceVersion }] of applied.report.outcomes.entries()) {
      const key = written[index]?.desired.key
      if (key && uid && resourceVersion) this.#deps.clean.mark(key, uid, resourceVersion)
    }
    return applied
  }

  #terminating(plan: Plan): Problem[] {
    const steps = plan.steps.filter((step) => step.do === 'hold')
    return steps.map(({ desired: { object } }) => ({
      phase: 'pending',
      code: 'applying',
      message: `${describeRef(refOf(object))} is being deleted by somebody else; it is made anew once it is gone`,
    }))
  }

  async #complete(wide: ApplySet, members: readonly Member[], objects: Outcome['objects']): Promise<Outcome> {
    const { clock, parents } = this.#deps
    const task = this.#task
    const before = this.#parent.state
    const set = shrink(wide, members)
    if (before && isInForce(before, task)) {
      await this.#save(set, wide)
      return { phase: 'applied', objects, event: before.event, isNew: false }
    }
    const isNew = before?.deployment_object_id !== task.object.id
    const event = isNew
      ? { id: uuid7(clock.now()), type: before ? 'UPDATED' : 'APPLIED', at: new Date(clock.now()).toISOString() }
      : before.event
    const state = stateOf(this.#deps, task, event)
    await parents.saveRevision(task.stackId, set, { state, manifest: task.object.content }, this.#signal)
    this.#deps.members.set(task.stackId, set.members)
    return { phase: 'applied', objects, event, isNew }
  }

  /** Only when something differs: a look that finds everything right writes nothing. */
  async #save(set: ApplySet, before: ApplySet): Promise<void> {
    if (isSameSet(set, before)) return
    await this.#deps.parents.save(this.#task.stackId, set, this.#signal)
    this.#deps.members.set(this.#task.stackId, set.members)
  }

  #readable(problem: Problem): Problem {
    return {
      ...problem,
      message: scrub(
        problem.message,
        this.#desired.map(({ object }) => object),
      ),
    }
  }
}

export const isInForce = (state: StackState, { rev, drift, object }: ApplyTask): boolean =>
  state.deployment_object_id === object.id && state.rev === rev && state.drift === drift

const stateOf = (
  { agentId }: ReconcileDeps,
  { stackId, rev, drift, object }: ApplyTask,
  event: StackState['event'],
): Omit<StackState, 'version'> => ({
  agent_id: agentId,
  stack_id: stackId,
  deployment_object_id: object.id,
  sequence_id: object.sequenceId,
  rev,
  checksum: object.checksum,
  drift,
  event,
})
