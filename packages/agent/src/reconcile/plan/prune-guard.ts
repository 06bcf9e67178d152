// Limits the deletions of one deployment object: a truncated manifest looks like any other, and some kinds hold data. Held deletions wait
// for a prune approval or the next deployment object. Pure.
import { describeRef, groupKindOf, groupKindText, type KubeObject, refOf } from '@brokkr/kube'

export interface PruneGuard {
  readonly count: number
  readonly percent: number
}
const dataKinds: ReadonlySet<string> = new Set([
  'Namespace',
  'CustomResourceDefinition.apiextensions.k8s.io',
  'PersistentVolumeClaim',
  'StatefulSet.apps',
])

/** Reason why the deletions are held; null: allowed. `before` is the number of members when the object arrived. */
export function checkPruneGuard(deletes: readonly KubeObject[], before: number, guard: PruneGuard): string | null {
  if (deletes.length === 0) return null
  const dear = deletes.filter((object) => dataKinds.has(groupKindText(groupKindOf(object))))
  if (dear.length > 0) return `it would delete ${toNames(dear)}`
  if (deletes.length >= before) return `it would delete all ${deletes.length} objects that the stack had: ${toNames(deletes)}`
  if (deletes.length > guard.count && deletes.length * 100 > guard.percent * before)
    return `it would delete ${deletes.length} of ${before} objects: ${toNames(deletes)}`
  return null
}

const namedMax = 20

function toNames(objects: readonly KubeObject[]): string {
  const names = objects.slice(0, namedMax).map((object) => describeRef(refOf(object)))
  return [...names, ...(objects.length > namedMax ? [`and ${objects.length - namedMax} more`] : [])].join(', ')
}

export const toHeldMessage = (why: string, sequenceId: number): string =>
  `sequence ${sequenceId} is applied, but nothing is deleted yet: ${why}. Approve the prune of sequence ${sequenceId}, or submit a manifest that keeps what should stay`
