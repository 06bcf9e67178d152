// May a revision drop that many of its stack's objects? A manifest that lost half of itself looks like any other, and some kinds
// take data along. What may not go waits for a person or for the next revision. Pure.
import { describeRef, groupKindOf, groupKindText, type KubeObject, refOf } from '@brokkr/kube/object.ts'

export interface PruneGuard {
  readonly count: number
  readonly percent: number
}
const precious: ReadonlySet<string> = new Set([
  'Namespace',
  'CustomResourceDefinition.apiextensions.k8s.io',
  'PersistentVolumeClaim',
  'StatefulSet.apps',
])

/** Why the deletes must wait; null: they may go. `before` counts the members that stood when the revision came. */
export function guardPrune(deletes: readonly KubeObject[], before: number, guard: PruneGuard): string | null {
  if (deletes.length === 0) return null
  const dear = deletes.filter((object) => precious.has(groupKindText(groupKindOf(object))))
  if (dear.length > 0) return `it would delete ${named(dear)}`
  if (deletes.length >= before) return `it would delete all ${deletes.length} objects that the stack had: ${named(deletes)}`
  if (deletes.length > guard.count && deletes.length * 100 > guard.percent * before)
    return `it would delete ${deletes.length} of ${before} objects: ${named(deletes)}`
  return null
}

const namedMax = 20

function named(objects: readonly KubeObject[]): string {
  const names = objects.slice(0, namedMax).map((object) => describeRef(refOf(object)))
  return [...names, ...(objects.length > namedMax ? [`and ${objects.length - namedMax} more`] : [])].join(', ')
}

export const heldMessage = (why: string, sequenceId: number): string =>
  `sequence ${sequenceId} is applied, but nothing is deleted yet: ${why}. Approve the prune of sequence ${sequenceId}, or submit a manifest that keeps what should stay`
