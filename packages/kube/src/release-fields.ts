// Lets go of fields that we applied, without taking them away: the value stays, and from then on belongs to whoever writes it next.
// Merely leaving a field out of the next apply would delete it, or put back its default.
import { hasReason } from './api-error.ts'
import { disowned, owns } from './field-path.ts'
import { isFields } from './fields.ts'
import type { Kube } from './kube.ts'
import type { KubeObject, ManagedFieldsEntry, ObjectRef } from './object.ts'

type Paths = readonly (readonly string[])[]

/** The places of `paths` that these managers still own. */
export function heldPaths(object: KubeObject, managers: readonly string[], paths: Paths): Paths {
  if (paths.length === 0) return paths
  const entries = entriesOf(object, managers)
  return paths.filter((steps) => entries.some((entry) => isFields(entry.fieldsV1) && owns(entry.fieldsV1, object, steps)))
}

const entriesOf = (object: KubeObject, managers: readonly string[]): ManagedFieldsEntry[] =>
  (object.metadata.managedFields ?? []).filter((entry) => managers.includes(entry.manager ?? '') && !entry.subresource)

/** Over the version that was read; a lost race reads again, five times at most. True when something was written. */
export async function releaseFields(
  deps: { kube: Kube },
  ref: ObjectRef,
  rule: { managers: readonly string[]; paths: Paths; signal?: AbortSignal | undefined },
): Promise<boolean> {
  for (let tries = 0; ; tries++) {
    rule.signal?.throwIfAborted()
    const live = await deps.kube.find(ref)
    const held = live ? heldPaths(live, rule.managers, rule.paths) : []
    if (!live || held.length === 0) return false
    const own = new Set(entriesOf(live, rule.managers))
    const entries = (live.metadata.managedFields ?? []).map((entry) => (own.has(entry) ? without(entry, live, held) : entry))
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
  fieldsV1: paths.reduce((fields, steps) => disowned(fields, live, steps) ?? {}, entry.fieldsV1 ?? {}),
})
