// Field ownership as recorded by server-side apply. Pure, except for the write that takes over fields of an older manager.

import { isFields } from '../client/fields.ts'
import type { Kube } from '../client/kube.ts'
import { hasReason } from '../client/kube-error.ts'
import type { Fields, KubeObject, ManagedFieldsEntry, ObjectRef } from '../client/object.ts'

export const findApplyEntry = (object: KubeObject, manager: string): ManagedFieldsEntry | undefined =>
  object.metadata.managedFields?.find((entry) => isApplyEntry(entry, manager))

const isApplyEntry = (entry: ManagedFieldsEntry, manager: string): boolean =>
  entry.manager === manager && entry.operation === 'Apply' && !entry.subresource

/** Kubernetes components, which add fields to any object. */
const SYSTEM_MANAGERS: ReadonlySet<string> = new Set(['kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-apiserver'])

/** True if only this manager's applies and Kubernetes components wrote to the object: then we created it. */
export const isOnlyAppliedBy = (object: KubeObject, manager: string): boolean =>
  (object.metadata.managedFields ?? []).every(
    (entry) => isApplyEntry(entry, manager) || Boolean(entry.subresource) || SYSTEM_MANAGERS.has(entry.manager ?? ''),
  )

export const hasManager = (object: KubeObject, managers: readonly string[]): boolean =>
  object.metadata.managedFields?.some((entry) => !entry.subresource && managers.includes(entry.manager ?? '')) ?? false

/**
 * Returns the entries after `to` took over all fields of `from` as applies. Without this, fields that an older manager wrote and that left
 * the manifest would stay forever. Returns undefined if there is nothing to take over.
 */
export function takeOverManagers(
  entries: readonly ManagedFieldsEntry[],
  from: readonly string[],
  to: string,
): ManagedFieldsEntry[] | undefined {
  const older = entries.filter((entry) => !entry.subresource && from.includes(entry.manager ?? ''))
  if (older.length === 0) return undefined
  const own = entries.filter((entry) => isApplyEntry(entry, to))
  const parts = [...own, ...older]
  const first = parts[0] as ManagedFieldsEntry
  const merged: ManagedFieldsEntry = {
    ...first,
    manager: to,
    operation: 'Apply',
    fieldsV1: parts.map((entry) => entry.fieldsV1 ?? {}).reduce(unionFields, {}),
  }
  return [...entries.filter((entry) => !parts.includes(entry)), merged]
}

/** FieldsV1 is a tree of keys, so the union of two sets merges the two trees. */
export function unionFields(a: Fields, b: Fields): Fields {
  const union: Fields = { ...a }
  for (const [key, value] of Object.entries(b)) {
    const before = union[key]
    union[key] = isFields(before) && isFields(value) ? unionFields(before, value) : (value ?? before)
  }
  return union
}

/** Writes the takeover with the version that was read; reads again after a conflict, at most five times. Returns whether it wrote. */
export async function migrateManagers(
  deps: { kube: Kube },
  ref: ObjectRef,
  rule: { from: readonly string[]; to: string; signal?: AbortSignal },
): Promise<boolean> {
  for (let tries = 0; ; tries++) {
    rule.signal?.throwIfAborted()
    const live = await deps.kube.find(ref, { metadataOnly: true })
    const entries = live && takeOverManagers(live.metadata.managedFields ?? [], rule.from, rule.to)
    if (!live || !entries) return false
    const version = { op: 'test', path: '/metadata/resourceVersion', value: live.metadata.resourceVersion } as const
    try {
      await deps.kube.patch(ref, { type: 'json', body: [version, { op: 'replace', path: '/metadata/managedFields', value: entries }] })
      return true
    } catch (error) {
      // A failed test of a JSON patch is reported as Invalid, a race inside the server as Conflict.
      if (tries >= 4 || !hasReason(error, 'Conflict', 'Invalid')) throw error
    }
  }
}

/** Field paths such as `/spec/replicas` from the tree of FieldsV1. List keys become `[name=web]`. */
export function fieldPaths(fields: Fields, max = 200): string[] {
  const paths: string[] = []
  const walk = (node: Fields, prefix: string): void => {
    const inner = Object.entries(node).filter(([key]) => key !== '.')
    if (inner.length === 0 && prefix !== '' && paths.length < max) paths.push(prefix)
    for (const [key, value] of inner) if (paths.length < max) walk(isFields(value) ? value : {}, `${prefix}${toPathStep(key)}`)
  }
  walk(fields, '')
  return paths
}

function toPathStep(key: string): string {
  if (key.startsWith('f:')) return `/${key.slice(2).replaceAll('~', '~0').replaceAll('/', '~1')}`
  if (!key.startsWith('k:')) return `[${key.slice(2)}]`
  try {
    const keys: unknown = JSON.parse(key.slice(2))
    return isFields(keys)
      ? `[${Object.entries(keys)
          .map(([name, value]) => `${name}=${String(value)}`)
          .join(',')}]`
      : `[${key.slice(2)}]`
  } catch {
    return `[${key.slice(2)}]`
  }
}
