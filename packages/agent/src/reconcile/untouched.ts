// The look that mostly finds nothing: a revision that this process brought into force, all of its members in place and nobody's
// hand on them since. Then the manifest need not even be opened. In doubt the answer is no, and the whole way is gone.
import { hasLabels, identityKey, identityOf, isTerminating } from '@brokkr/kube/object.ts'
import { indexMembers } from '@brokkr/kube/prune.ts'
import { actingFor } from './acting-for.ts'
import type { ApplyTask } from './apply-task.ts'
import type { ReconcileDeps } from './deps.ts'
import type { EarlyList } from './early-list.ts'
import { listInScope } from './list-in-scope.ts'
import { stableLabels } from './marks.ts'
import type { StackParent } from './stack-parents.ts'

export async function isUntouched(
  deps: ReconcileDeps,
  task: ApplyTask,
  { parent, early }: { parent: StackParent; early: EarlyList },
  signal: AbortSignal,
): Promise<boolean> {
  const { stackId, suspects, resting } = task
  const isQuiet = suspects.size === 0 && resting.size === 0 && parent.basis === null
  if (!isQuiet || !deps.clean.isSettled(stackId, settledAs(task))) return false
  const acting = actingFor(deps, parent.tenant)
  if (!acting.ok) return false
  const { members, incomplete } = await (early(parent.set) ?? listInScope(acting.deps, parent.set, signal))
  if (incomplete.length > 0 || members.length !== parent.set.members.length) return false
  const known = indexMembers(parent.set.members)
  const labels = stableLabels({ stackId, agentId: deps.agentId, applySetId: deps.parents.setId(stackId) })
  return members.every((live) => {
    const uid = known.get(identityKey(identityOf(live)))?.uid
    return (
      uid !== undefined && uid === live.metadata.uid && hasLabels(live, labels) && !isTerminating(live) && !deps.clean.mayBeTouched(live)
    )
  })
}

/** What must be the same for nothing to be left to do. */
export const settledAs = ({ object, rev, drift }: Pick<ApplyTask, 'rev' | 'drift'> & { object: { id: string } }): string =>
  `${object.id} ${rev} ${drift}`
