// Removes everything a stack deployed here, and nothing else: members by set, owner, stack and uid, last phase first, the parent
// when none is left.
import { groupKindText } from '@brokkr/kube/object.ts'
import { actingFor } from './acting-for.ts'
import type { ReconcileDeps } from './deps.ts'
import { type ListedMembers, listInScope } from './list-in-scope.ts'
import { stableLabels } from './marks.ts'
import { type Outcome, stopped, touchedByPrune } from './outcome.ts'
import { planStack } from './plan.ts'
import { combine, type Problem } from './problem.ts'
import { pruneMembers, pruneProblems } from './prune-members.ts'

export async function removeStack(deps: ReconcileDeps, stackId: string, signal: AbortSignal): Promise<Outcome> {
  const parent = await deps.parents.read(stackId, signal)
  if (!parent.exists) return removed(deps, stackId, null, [])
  const acting = actingFor(deps, parent.tenant ?? deps.tenants.known(stackId))
  if (!acting.ok) return stopped(acting.problem)
  const labels = stableLabels({ stackId, agentId: deps.agentId, applySetId: deps.parents.setId(stackId) })
  const { members, incomplete } = await listInScope(acting.deps, parent.set, signal)
  const inventory = parent.set.members
  const { deletes } = planStack({ desired: [], live: members, inventory, labels, isInForce: false, isSuspect: () => false })
  const pruned = await pruneMembers(acting.deps, stackId, deletes, signal)
  const objects = pruned.map(touchedByPrune)
  const problems = [...pruneProblems(pruned), ...incomplete.map(unlisted)]
  if (problems.length > 0) return stopped(combine(problems), objects)
  await deps.parents.remove(stackId)
  return removed(deps, stackId, parent.state, objects)
}

function removed(
  deps: ReconcileDeps,
  stackId: string,
  last: Extract<Outcome, { phase: 'removed' }>['last'],
  objects: Outcome['objects'],
): Outcome {
  deps.members.delete(stackId)
  deps.clean.unsettle(stackId)
  deps.tenants.forget(stackId)
  return { phase: 'removed', objects, last }
}

/** Without a complete list nobody knows that nothing is left. */
const unlisted = ({ kind, namespace, failure }: ListedMembers['incomplete'][number]): Problem => ({
  phase: 'pending',
  code: 'removing',
  message: `${groupKindText(kind)}${namespace ? ` in ${namespace}` : ''} cannot be listed: ${failure.message}`,
})
