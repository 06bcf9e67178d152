// Detects that nothing is to do: this process applied the deployment object, and all members have their verified versions. Then the
// manifest is not parsed. Returns false in doubt.

import { hasLabels, identityKey, identityOf, indexMembers, isTerminating } from '@brokkr/kube'
import type { ReconcileDeps } from '../deps.ts'
import { toOwnershipLabels } from '../plan/ownership-metadata.ts'
import type { StackParent } from '../stack-parents.ts'
import type { ApplyTask } from './apply-task.ts'
import { impersonateGenerator } from './impersonate.ts'
import { listInScope } from './list-in-scope.ts'
import type { PrefetchedMembers } from './prefetch-members.ts'

export async function isStackUnchanged(
  deps: ReconcileDeps,
  task: ApplyTask,
  { parent, prefetchedMembers }: { parent: StackParent; prefetchedMembers: PrefetchedMembers },
  signal: AbortSignal,
): Promise<boolean> {
  const { stackId, driftCandidates, backedOff } = task
  const isQuiet = driftCandidates.size === 0 && backedOff.size === 0 && parent.pruneBase === null
  if (!isQuiet || !deps.verifiedVersions.isApplied(stackId, toVersionKey(task))) return false
  const impersonation = impersonateGenerator(deps, parent.generator)
  if (!impersonation.ok) return false
  const { members, incomplete } = await (prefetchedMembers(parent.set) ?? listInScope(impersonation.deps, parent.set, signal))
  if (incomplete.length > 0 || members.length !== parent.set.members.length) return false
  const inventory = indexMembers(parent.set.members)
  const labels = toOwnershipLabels({ stackId, agentId: deps.agentId, applySetId: deps.parents.setId(stackId) })
  return members.every((live) => {
    const uid = inventory.get(identityKey(identityOf(live)))?.uid
    return (
      uid !== undefined &&
      uid === live.metadata.uid &&
      hasLabels(live, labels) &&
      !isTerminating(live) &&
      !deps.verifiedVersions.mayHaveDrifted(live)
    )
  })
}

/** Key of the applied version: object, sequence number and drift mode. */
export const toVersionKey = ({ object, rev, drift }: Pick<ApplyTask, 'rev' | 'drift'> & { object: { id: string } }): string =>
  `${object.id} ${rev} ${drift}`
