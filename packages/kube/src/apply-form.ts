// What of an object is sent by server-side apply, and what an answer says about it. Pure.
import type { Written } from './kube.ts'
import { applyEntryOf } from './managed-fields.ts'
import type { KubeObject, ObjectMeta } from './object.ts'

/** Without what the server owns: status, and the metadata it fills in. */
export function applyForm(object: KubeObject): KubeObject {
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

/** An apply of nothing but the name: takes back every field that this manager alone owns. */
export const emptyForm = (object: KubeObject): KubeObject => ({
  apiVersion: object.apiVersion,
  kind: object.kind,
  metadata: { name: object.metadata.name, ...(object.metadata.namespace ? { namespace: object.metadata.namespace } : {}) },
})

/**
 * Whether the apply behind this answer changed, or as a dry run would change, the object. The server sets the time of the manager's
 * entry to now exactly when something changes, so an entry older than the request means that nothing did. This spares a read per object.
 * Times are whole seconds of the server's clock; in doubt the answer is true.
 */
export function mayHaveChanged(written: Written, manager: string): boolean {
  if (written.created || written.serverTimeMs === undefined) return true
  const time = Date.parse(applyEntryOf(written.object, manager)?.time ?? '')
  return Number.isNaN(time) || time >= written.serverTimeMs - written.tookMs - 2_000
}
