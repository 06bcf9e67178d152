// Deletes members that were judged ours, except the ground on which members of another stack stand, and says what is left of them.
import { describeRef, groupKindOf, groupKindText, type KubeObject } from '@brokkr/kube/object.ts'
import { type PruneOutcome, pruneObjects } from '@brokkr/kube/prune.ts'
import type { ReconcileDeps } from './deps.ts'
import type { MemberIndex } from './member-index.ts'
import { type Problem, problemOf } from './problem.ts'

export async function pruneMembers(
  deps: ReconcileDeps,
  stackId: string,
  deletes: readonly KubeObject[],
  signal: AbortSignal,
): Promise<PruneOutcome[]> {
  const { applyConcurrency: concurrency, goneWaitMs: phaseWaitMs } = deps.settings
  const hold = (object: KubeObject) => (isGroundOfOthers(deps.members, stackId, object) ? 'foreign_content' : undefined)
  const outcomes = await pruneObjects(deps, deletes, { concurrency, phaseWaitMs, hold, signal })
  for (const { action } of outcomes) deps.metrics.prunes.inc({ result: action })
  return outcomes
}

/** A namespace or a definition goes with everything in it. */
function isGroundOfOthers(members: MemberIndex, stackId: string, object: KubeObject): boolean {
  const { name } = object.metadata
  const kind = groupKindText(groupKindOf(object))
  if (kind === 'Namespace') return members.isUsedByOthers(stackId, ({ namespace }) => namespace === name)
  // Only metadata is at hand, and it names the group: that any kind of it is in use is reason enough.
  if (kind !== 'CustomResourceDefinition.apiextensions.k8s.io') return false
  return members.isUsedByOthers(stackId, ({ group }) => group !== '' && name.endsWith(`.${group}`))
}

export function pruneProblems(outcomes: readonly PruneOutcome[]): Problem[] {
  return outcomes.flatMap((outcome): Problem[] => {
    const what = describeRef(outcome.ref)
    const pending = (message: string): Problem[] => [{ phase: 'pending', code: 'removing', message, ref: outcome.ref }]
    switch (outcome.action) {
      case 'deleted':
        return []
      case 'failed':
        return outcome.failure ? [problemOf(outcome.failure, outcome.ref)] : pending(`${what} could not be deleted`)
      case 'held':
        return pending(`${what} stays while members of another stack live in it (${outcome.detail ?? 'held'})`)
      case 'waiting':
        return pending(`${what} waits for what stands on it`)
      case 'going':
        return pending(`${what} is being deleted; finalizers: ${outcome.detail || 'none'}`)
      default:
        return outcome.action satisfies never
    }
  })
}
