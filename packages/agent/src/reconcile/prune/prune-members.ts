// Deletes owned members, except namespaces and definitions that members of other stacks need, and returns the outcome.
import { describeRef, groupKindOf, groupKindText, type KubeObject, type Member, type PruneOutcome, pruneObjects, refOf } from '@brokkr/kube'
import type { ReconcileDeps } from '../deps.ts'
import type { MemberIndex } from '../member-index.ts'
import { PRUNE } from '../plan/ownership-metadata.ts'
import { type Problem, toProblem } from '../problem.ts'
import type { SavedInventories } from '../saved-inventories.ts'

export async function pruneMembers(
  deps: ReconcileDeps,
  stackId: string,
  deletes: readonly KubeObject[],
  signal: AbortSignal,
): Promise<PruneOutcome[]> {
  const { applyConcurrency: concurrency, goneWaitMs: phaseWaitMs } = deps.settings
  // Read again: the index may lack stacks whose parent was unreadable.
  const saved = deletes.some(containsObjects) ? await deps.parents.inventories(signal) : null
  const hold = (object: KubeObject) => (saved && containsObjects(object) ? findHoldReason(deps.members, saved, stackId, object) : undefined)
  const outcomes = await pruneObjects(deps, deletes, { concurrency, phaseWaitMs, hold, signal })
  for (const { action } of outcomes) deps.metrics.prunes.inc({ result: action })
  return outcomes
}

/** Deleting a namespace or a definition deletes everything in it. */
const containsObjects = (object: KubeObject): boolean =>
  ['Namespace', 'CustomResourceDefinition.apiextensions.k8s.io'].includes(groupKindText(groupKindOf(object)))

const foreignContent = 'foreign_content'

/** Reason to keep it: other stacks use it, or that is unknown. */
function findHoldReason(members: MemberIndex, saved: SavedInventories, stackId: string, object: KubeObject): string | undefined {
  const { name } = object.metadata
  if (saved.unreadable.length > 0) return unreadableText(saved.unreadable)
  const isUser: (member: Member) => boolean =
    object.kind === 'Namespace'
      ? ({ namespace }) => namespace === name
      : // Only metadata is at hand, and it names the group: that any kind of it is in use is reason enough.
        ({ group }) => group !== '' && name.endsWith(`.${group}`)
  const isUsed =
    members.isUsedByOthers(stackId, isUser) || saved.stacks.some((stack) => stack.stackId !== stackId && stack.members.some(isUser))
  return isUsed ? foreignContent : undefined
}

const namedMax = 5

function unreadableText(unreadable: SavedInventories['unreadable']): string {
  const names = unreadable.slice(0, namedMax).map(({ error }) => error.message)
  const more = unreadable.length > namedMax ? [`and ${unreadable.length - namedMax} more`] : []
  return `the inventories of other stacks cannot be read, so their members may live in it: ${[...names, ...more].join('; ')}`
}

/** Reported instead of deleted: without its labels only the inventory shows the owner. */
export function toUnprovenProblem(object: KubeObject, labels: Readonly<Record<string, string>>): Problem {
  const missing = Object.entries(labels).filter(([key]) => object.metadata.labels?.[key] === undefined)
  const ref = refOf(object)
  const texts = missing.map(([key, value]) => `${key}=${value}`).join(', ')
  const message = `${describeRef(ref)} was applied by this stack and is left over, but its labels were taken off (${texts}): put them back to have it deleted, delete it, or keep it with the annotation ${PRUNE.annotation}=${PRUNE.value}`
  return { phase: 'pending', code: 'removing', message, ref }
}

export function listPruneProblems(outcomes: readonly PruneOutcome[]): Problem[] {
  return outcomes.flatMap((outcome): Problem[] => {
    const what = describeRef(outcome.ref)
    const pending = (message: string): Problem[] => [{ phase: 'pending', code: 'removing', message, ref: outcome.ref }]
    switch (outcome.action) {
      case 'deleted':
        return []
      case 'failed':
        return outcome.failure ? [toProblem(outcome.failure, outcome.ref)] : pending(`${what} could not be deleted`)
      case 'held':
        return pending(
          outcome.detail === foreignContent
            ? `${what} stays while members of another stack live in it (${foreignContent})`
            : `${what} stays: ${outcome.detail ?? 'held'}`,
        )
      case 'waiting':
        return pending(`${what} waits for what stands on it`)
      case 'going':
        return pending(`${what} is being deleted; finalizers: ${outcome.detail || 'none'}`)
      default:
        return outcome.action satisfies never
    }
  })
}
