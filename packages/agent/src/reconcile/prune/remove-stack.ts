// Removes everything that a stack deployed: members by set, owner, stack and uid, last phase first, then the parent. Members are taken
// from the inventory and from the list by label together.
import { groupKindText } from '@brokkr/kube'
import { impersonateGenerator } from '../apply/impersonate.ts'
import { type ListedMembers, listInScope } from '../apply/list-in-scope.ts'
import type { ReconcileDeps } from '../deps.ts'
import { type Outcome, toProblemOutcome, toPruneOutcome } from '../outcome.ts'
import { toOwnershipLabels } from '../plan/ownership-metadata.ts'
import { planStack } from '../plan/plan.ts'
import { combineProblems, type Problem } from '../problem.ts'
import { findUnlisted } from './find-unlisted.ts'
import { listPruneProblems, pruneMembers, toUnprovenProblem } from './prune-members.ts'

export async function removeStack(deps: ReconcileDeps, stackId: string, signal: AbortSignal): Promise<Outcome> {
  const parent = await deps.parents.read(stackId, signal)
  if (!parent.exists) return toRemovedOutcome(deps, stackId, null, [])
  const impersonation = impersonateGenerator(deps, parent.generator ?? deps.generators.get(stackId))
  if (!impersonation.ok) return toProblemOutcome(impersonation.problem)
  const labels = toOwnershipLabels({ stackId, agentId: deps.agentId, applySetId: deps.parents.setId(stackId) })
  const inventory = parent.set.members
  const list = await listInScope(impersonation.deps, parent.set, signal)
  await findUnlisted(impersonation.deps, stackId, inventory, list, signal)
  const { members: live, incomplete } = list
  const { deletes, unproven } = planStack({
    desired: [],
    live,
    inventory,
    incomplete,
    labels,
    isInForce: false,
    isSuspect: () => false,
  })
  const pruned = await pruneMembers(impersonation.deps, stackId, deletes, signal)
  const objects = pruned.map(toPruneOutcome)
  const problems = [
    ...listPruneProblems(pruned),
    ...unproven.map((object) => toUnprovenProblem(object, labels)),
    ...incomplete.map(toUnlistedProblem),
  ]
  if (problems.length > 0) return toProblemOutcome(combineProblems(problems), objects)
  await deps.parents.remove(stackId)
  return toRemovedOutcome(deps, stackId, parent.state, objects)
}

function toRemovedOutcome(
  deps: ReconcileDeps,
  stackId: string,
  last: Extract<Outcome, { phase: 'removed' }>['last'],
  objects: Outcome['objects'],
): Outcome {
  deps.members.delete(stackId)
  deps.verifiedVersions.clearApplied(stackId)
  deps.generators.forget(stackId)
  return { phase: 'removed', objects, last }
}

/** Without a complete list it is unknown whether members are left. */
const toUnlistedProblem = ({ kind, namespace, failure }: ListedMembers['incomplete'][number]): Problem => ({
  phase: 'pending',
  code: 'removing',
  message: `${groupKindText(kind)}${namespace ? ` in ${namespace}` : ''} cannot be listed: ${failure.message}`,
})
