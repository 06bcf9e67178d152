// Paths that a deployment object changes in existing members, from the two manifests, without a request and without values. Pure.
import { identityKey, identityOf, type KubeObject } from '@brokkr/kube'
import { type FieldChange, toChangedObject } from '../drift/detect-drift.ts'
import { type DesiredObject, type DesiredRules, parseObjects, placeObjects } from './desired.ts'
import { findChangedPaths } from './field-diff.ts'

const changesMax = 200

/** `keys` are the written members. Empty if the earlier manifest is not stored. */
export function listManifestChanges(
  before: string | null,
  desired: readonly DesiredObject[],
  keys: ReadonlySet<string>,
  rules: Pick<DesiredRules, 'scope' | 'defaultNamespace'>,
): FieldChange[] {
  if (before === null || keys.size === 0) return []
  const read = parseObjects(before)
  if (!read.ok) return []
  const old = new Map(placeObjects(read.objects, rules).map(({ object }) => [identityKey(identityOf(object)), object]))
  const changes: FieldChange[] = []
  for (const { key, uncut } of desired) {
    if (changes.length >= changesMax) break
    const earlier = keys.has(key) ? old.get(key) : undefined
    if (earlier) changes.push(...between(earlier, uncut, changesMax - changes.length))
  }
  return changes
}

const between = (earlier: KubeObject, now: KubeObject, max: number): FieldChange[] =>
  findChangedPaths(earlier, now, max).map((path) => ({ ...toChangedObject(now), path }))
