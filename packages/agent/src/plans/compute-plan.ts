// Computes what a plan would do in this cluster: desired objects under local policy, members, dry runs under the generator's identity.
// Nothing is written.
import { randomBytes } from 'node:crypto'
import type { NewPlanResult, PendingPlan } from '@brokkr/contract/plans/plan.ts'
import { groupKindText, identityKey, identityOf, isCrd, type KubeObject, readCrdKind } from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { impersonateGenerator } from '../reconcile/apply/impersonate.ts'
import { writeRules } from '../reconcile/apply/write-rules.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { readScopes } from '../reconcile/plan/build-desired.ts'
import {
  type DesiredObject,
  type DesiredRules,
  parseObjects,
  placeObjects,
  toDesiredObjects,
  withOwnDefinitions,
} from '../reconcile/plan/desired.ts'
import { createTextMask, maskText } from '../reconcile/plan/mask.ts'
import { toOwnershipLabels } from '../reconcile/plan/ownership-metadata.ts'
import { type Plan, planStack } from '../reconcile/plan/plan.ts'
import { checkPruneGuard } from '../reconcile/plan/prune-guard.ts'
import { checkSignature } from '../reconcile/plan/signature.ts'
import type { Problem } from '../reconcile/problem.ts'
import { listLive } from '../reconcile/prune/find-unlisted.ts'
import { type GeneratorRef, getGrants } from '../reconcile/stack-generators.ts'
import type { StackParent } from '../reconcile/stack-parents.ts'
import { type CheckDeps, checkStep } from './check-step.ts'
import { withDryRunsOnly } from './dry-runs-only.ts'
import { type ObjectPlan, toAnswer, toChange, toRefusal } from './plan-changes.ts'

/** Throws the signal's reason and errors of the API server that leave nothing to say. */
export async function computePlan(deps: ReconcileDeps, plan: PendingPlan, signal: AbortSignal): Promise<NewPlanResult> {
  const refusal = checkSignature(plan.yaml_content, deps.settings.signatures)
  if (refusal) return toRefusal(refusal.message)
  const parsed = plan.is_deletion_marker ? { ok: true as const, objects: [] } : parseObjects(plan.yaml_content)
  if (!parsed.ok) return toRefusal(parsed.problem.message)
  const parent = await deps.parents.peek(plan.stack_id, signal)
  const generator = parent.generator ?? (await deps.generators.find(plan.stack_id, signal))
  const impersonation = impersonateGenerator({ ...deps, kube: withDryRunsOnly(deps.kube) }, generator)
  if (!impersonation.ok) return toRefusal(impersonation.problem.message)
  const judged = judgeObjects(parsed.objects, await toRules(impersonation.deps, plan, { objects: parsed.objects, generator }, signal))
  if ('problem' in judged) return toRefusal(maskText(judged.problem.message, parsed.objects))
  return planMembers(impersonation.deps, plan, { parent, judged, objects: parsed.objects }, signal)
}

async function toRules(
  deps: ReconcileDeps,
  plan: PendingPlan,
  { objects, generator }: { objects: readonly KubeObject[]; generator: GeneratorRef | null },
  signal: AbortSignal,
): Promise<DesiredRules> {
  const { settings, agentId, hashKey, parents } = deps
  return {
    // The hash leaves out the object and its checksum, so the plan finds the members of an equal object unchanged.
    metadata: { stackId: plan.stack_id, agentId, applySetId: parents.setId(plan.stack_id), objectId: plan.id, checksum: plan.id, hashKey },
    policy: settings.policy,
    scope: withOwnDefinitions(objects, await readScopes(deps, objects, signal)),
    defaultNamespace: settings.defaultNamespace,
    grants: getGrants(generator, settings.tenants),
    generator: generator === null ? '(unknown)' : (generator.name ?? generator.generatorId),
  }
}

interface Judged {
  readonly desired: readonly DesiredObject[]
  /** Objects that local policy or an unknown kind denies; the apply of the stack would fail with these reasons. */
  readonly denied: readonly { readonly object: KubeObject; readonly message: string }[]
}

/** Unlike an apply, a plan goes on with the objects that are allowed. */
function judgeObjects(objects: readonly KubeObject[], rules: DesiredRules): Judged | { readonly problem: Problem } {
  const placed = placeObjects(objects, rules).map(({ object }) => ({ object, alone: toDesiredObjects([object], rules) }))
  const denied = placed.flatMap(({ object, alone }) => (alone.ok ? [] : [{ object, message: alone.problem.message }]))
  const together = toDesiredObjects(
    placed.filter(({ alone }) => alone.ok).map(({ object }) => object),
    rules,
  )
  return together.ok ? { desired: together.objects, denied } : { problem: together.problem }
}

async function planMembers(
  deps: ReconcileDeps,
  plan: PendingPlan,
  { parent, judged, objects }: { parent: StackParent; judged: Judged; objects: readonly KubeObject[] },
  signal: AbortSignal,
): Promise<NewPlanResult> {
  const { settings, agentId, parents } = deps
  const { desired, denied } = judged
  const list = await listLive(deps, plan.stack_id, { parent, prefetchedMembers: () => null, desired }, signal)
  const labels = toOwnershipLabels({ stackId: plan.stack_id, agentId, applySetId: parents.setId(plan.stack_id) })
  const steps = planStack({
    desired,
    live: list.members,
    inventory: parent.set.members,
    incomplete: list.incomplete,
    labels,
    isInForce: false,
    // Every member is compared, so drift shows as a change.
    isSuspect: () => true,
  })
  const check: CheckDeps = {
    kube: deps.kube,
    clock: deps.clock,
    rules: writeRules(settings, signal),
    planKey: randomBytes(32),
    born: listBorn(objects),
    mask: createTextMask(objects),
  }
  const checked = await mapBounded(steps.steps, settings.applyConcurrency, (step) => checkStep(check, step), signal)
  const refused = denied.map(({ object, message }) => toChange(object, 'denied', { message: check.mask(message) }))
  const deletions = toDeletions(deps, plan, steps, denied)
  const unlisted = list.incomplete.map(({ kind }) => groupKindText(kind))
  const reason = unlisted.length === 0 ? null : `members of these kinds could not be listed: ${[...new Set(unlisted)].join(', ')}`
  return toAnswer([...checked, ...refused, ...deletions], reason)
}

/** A denied object keeps its member: the apply would fail before anything is deleted. */
function toDeletions(
  { settings }: ReconcileDeps,
  plan: PendingPlan,
  { deletes, existingCount }: Plan,
  denied: Judged['denied'],
): ObjectPlan[] {
  const kept = new Set(denied.map(({ object }) => identityKey(identityOf(object))))
  const leaving = deletes.filter((object) => !kept.has(identityKey(identityOf(object))))
  // A deletion marker passes the guard.
  const guard = plan.is_deletion_marker ? null : checkPruneGuard(leaving, existingCount, settings.pruneGuard)
  return leaving.map((object) => toChange(object, 'delete', { guard }))
}

const listBorn = (objects: readonly KubeObject[]): CheckDeps['born'] => ({
  namespaces: new Set(
    objects.filter(({ apiVersion, kind }) => apiVersion === 'v1' && kind === 'Namespace').map(({ metadata }) => metadata.name),
  ),
  kinds: new Set(objects.filter(isCrd).map((crd) => groupKindText(readCrdKind(crd)))),
})
