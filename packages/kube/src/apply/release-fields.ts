// Releases fields that we applied without removing them: the value stays and belongs to the next manager that writes it. A field that is
// merely left out of the next apply would be deleted or reset to its default.

import { isFields } from '../client/fields.ts'
import type { Kube } from '../client/kube.ts'
import { hasReason } from '../client/kube-error.ts'
import type { KubeObject, ManagedFieldsEntry, ObjectRef } from '../client/object.ts'
import { owns, withoutOwnedPath } from './field-path.ts'

type Paths = readonly (readonly string[])[]

/** Returns the paths that these managers still own. */
export function findOwnedPaths(object: KubeObject, managers: readonly string[], paths: Paths): Paths {
  if (paths.length === 0) return paths
  const entries = listManagerEntries(object, managers)
  return paths.filter((steps) => entries.some((entry) => isFields(entry.fieldsV1) && owns(entry.fieldsV1, object, steps)))
}

const listManagerEntries = (object: KubeObject, managers: readonly string[]): ManagedFieldsEntry[] =>
  (object.metadata.managedFields ?? []).filter((entry) => managers.includes(entry.manager ?? '') && !entry.subresource)

/** Writes with the version that was read; reads again after a conflict, at most five times. Returns whether it wrote. */
export async function releaseFields(
  deps: { kube: Kube },
  ref: ObjectRef,
  rule: { managers: readonly string[]; paths: Paths; signal?: AbortSignal | undefined },
): Promise<boolean> {
  for (let tries = 0; ; tries++) {
    rule.signal?.throwIfAborted()
    const live = await deps.kube.find(ref)
    const ownedPaths = live ? findOwnedPaths(live, rule.managers, rule.paths) : []
    if (!live || ownedPaths.length === 0) return false
    const own = new Set(listManagerEntries(live, rule.managers))
    const entries = (live.metadata.managedFields ?? []).map((entry) => (own.has(entry) ? without(entry, live, ownedPaths) : entry))
    const version = { op: 'test', path: '/metadata/resourceVersion', value: live.metadata.resourceVersion } as const
    try {
      await deps.kube.patch(ref, { type: 'json', body: [version, { op: 'replace', path: '/metadata/managedFields', value: entries }] })
      return true
    } catch (error) {
      if (tries >= 4 || !hasReason(error, 'Conflict', 'Invalid')) throw error
    }
  }
}

const without = (entry: ManagedFieldsEntry, live: KubeObject, paths: Paths): ManagedFieldsEntry => ({
  ...entry,
  fieldsV1: paths.reduce((fields, steps) => withoutOwnedPath(fields, live, steps) ?? {}, entry.fieldsV1 ?? {}),
})
