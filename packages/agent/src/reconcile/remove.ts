// Removes everything a stack deployed here, and nothing else: members by set, owner, stack and uid, last phase first, the parent
// when none is left.
import { listMembers } from '@brokkr/kube/applyset-store.ts'
import { groupKindText } from '@brokkr/kube/object.ts'
import type { ReconcileDeps } from './deps.ts'
import { stableLabels } from './marks.ts'
import { type Outcome, stopped, touchedByPrune } from './outcome.ts'
import { planStack } from './plan.ts'
import { combine, type Problem } from './problem.ts'
import { pruneMembers, pruneProblems } from './prune-members.ts'

export async function removeStack(deps: ReconcileDeps, stackId: string, signal: AbortSignal): Promise<Outcome> {
  const parent = await deps.parents.read(stackId, signal)
  if (!parent.exists) return removed(deps, stackId, null, [])
  const labels = stableLabels({ stackId, agentId: deps.agentId, applySetId: deps.parents.setId(stackId) })
  const { members, incomplete } = await listMembers(deps, parent.set, { signal, concurrency: deps.settings.applyConcurrency })
  const { deletes } = planStack({ desired: [], live: members, inventory: parent.set.members, labels, isSuspect: () => false })
  const pruned = await pruneMembers(deps, stackId, deletes, signal)
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
  return { phase: 'removed', objects, last }
}

/** Without a complete list nobody knows that nothing is left. */
const unlisted = ({ kind, namespace, failure }: Awaited<ReturnType<typeof listMembers>>['incomplete'][number]): Problem => ({
  phase: 'pending',
  code: 'removing',
  message: `${groupKindText(kind)}${namespace ? ` in ${namespace}` : ''} cannot be listed: ${failure.message}`,
})
