// Which places a new revision changes in members that stay, read from the two manifests: no request is needed for it, and no value
// is told. Pure.
import { identityKey, identityOf, type KubeObject } from '@brokkr/kube/object.ts'
import { type DesiredObject, type DesiredRules, placedObjects, readObjects } from './desired.ts'
import { changedPaths } from './field-diff.ts'
import { type FieldChange, placeOf } from './verify.ts'

const changesMax = 200

/** `keys` are the members that were written. Nothing where the earlier manifest is not known any more. */
export function revisionChanges(
  before: string | null,
  desired: readonly DesiredObject[],
  keys: ReadonlySet<string>,
  rules: Pick<DesiredRules, 'scope' | 'defaultNamespace'>,
): FieldChange[] {
  if (before === null || keys.size === 0) return []
  const read = readObjects(before)
  if (!read.ok) return []
  const old = new Map(placedObjects(read.objects, rules).map(({ object }) => [identityKey(identityOf(object)), object]))
  const changes: FieldChange[] = []
  for (const { key, uncut } of desired) {
    if (changes.length >= changesMax) break
    const earlier = keys.has(key) ? old.get(key) : undefined
    if (earlier) changes.push(...between(earlier, uncut, changesMax - changes.length))
  }
  return changes
}

const between = (earlier: KubeObject, now: KubeObject, max: number): FieldChange[] =>
  changedPaths(earlier, now, max).map((path) => ({ ...placeOf(now), path }))
