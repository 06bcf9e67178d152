// Builds the object that server-side apply sends, and reads from a response whether it changed anything. Pure.
import type { Written } from '../client/kube.ts'
import type { KubeObject, ObjectMeta } from '../client/object.ts'
import { findApplyEntry } from './managed-fields.ts'

/** Removes what the server owns: status and generated metadata. */
export function toApplyPayload(object: KubeObject): KubeObject {
  const { status: _status, ...rest } = object
  return { ...rest, metadata: appliedMeta(object.metadata) }
}

function appliedMeta(meta: ObjectMeta): ObjectMeta {
  const { name, namespace, labels, annotations, finalizers, ownerReferences } = meta
  return {
    name,
    ...(namespace ? { namespace } : {}),
    ...(labels ? { labels } : {}),
    ...(annotations ? { annotations } : {}),
    ...(finalizers ? { finalizers } : {}),
    ...(ownerReferences ? { ownerReferences } : {}),
  }
}

/** Apply with the name only: releases every field that only this manager owns. */
export const toEmptyPayload = (object: KubeObject): KubeObject => ({
  apiVersion: object.apiVersion,
  kind: object.kind,
  metadata: { name: object.metadata.name, ...(object.metadata.namespace ? { namespace: object.metadata.namespace } : {}) },
})

/**
 * Returns whether the apply changed the object, or would change it as a dry run. The server sets the time of the manager's entry only when
 * something changes, so an entry older than the request means no change. This saves one read per object. Times are whole seconds of the
 * server's clock; the result is true in doubt.
 */
export function mayHaveChanged(written: Written, manager: string): boolean {
  if (written.created || written.serverTimeMs === undefined) return true
  const time = Date.parse(findApplyEntry(written.object, manager)?.time ?? '')
  return Number.isNaN(time) || time >= written.serverTimeMs - written.tookMs - 2_000
}
