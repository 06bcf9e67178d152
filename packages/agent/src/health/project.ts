// What is kept of an object for judging its health: a cluster has many pods, and a pod says much that nobody asks here. Pure.
import { fieldsAt, rowsAt, textAt } from '@brokkr/kube/fields.ts'
import type { Fields, KubeObject, ObjectMeta } from '@brokkr/kube/object.ts'
import { OBJECT_LABEL } from '../reconcile/marks.ts'

/** Without who set which field, and without what a ConfigMap or Secret holds. */
export function projectMember({ apiVersion, kind, metadata, spec, status, ...rest }: KubeObject): KubeObject {
  const { managedFields: _fields, annotations: _annotations, ...kept } = metadata
  const binding = 'volumeBindingMode' in rest ? { volumeBindingMode: rest['volumeBindingMode'] } : {}
  return { apiVersion, kind, metadata: kept, ...(spec ? { spec } : {}), ...(status ? { status } : {}), ...binding }
}

/** Of what has no state of its own: that it is there, and whose it is. */
export const projectPresence = ({ apiVersion, kind, metadata }: KubeObject): KubeObject => ({
  apiVersion,
  kind,
  metadata: presenceOf(metadata),
})

export function projectPod(pod: KubeObject): KubeObject {
  const { status } = pod
  const text = (key: string) => (typeof status?.[key] === 'string' ? { [key]: status[key] } : {})
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: podMeta(pod.metadata),
    spec: { volumes: claimsOf(pod) },
    status: {
      ...text('phase'),
      ...text('reason'),
      ...text('message'),
      conditions: rowsAt(status, 'conditions').filter(({ type }) => type === 'Ready' || type === 'PodScheduled'),
      containerStatuses: rowsAt(status, 'containerStatuses').map(containerOf),
      initContainerStatuses: rowsAt(status, 'initContainerStatuses').map(containerOf),
    },
  }
}

function podMeta(metadata: ObjectMeta): ObjectMeta {
  const objectId = metadata.labels?.[OBJECT_LABEL] ?? metadata.annotations?.[OBJECT_LABEL]
  return { ...presenceOf(metadata), ...(objectId ? { labels: { [OBJECT_LABEL]: objectId } } : {}) }
}

const presenceOf = ({ name, namespace, uid, ownerReferences, deletionTimestamp }: ObjectMeta): ObjectMeta => ({
  name,
  ...(namespace ? { namespace } : {}),
  ...(uid ? { uid } : {}),
  ...(ownerReferences ? { ownerReferences } : {}),
  ...(deletionTimestamp ? { deletionTimestamp } : {}),
})

const claimsOf = (pod: KubeObject): Fields[] =>
  rowsAt(pod, 'spec', 'volumes').filter((volume) => fieldsAt(volume, 'persistentVolumeClaim') !== undefined)

const containerOf = (status: Fields): Fields => ({
  name: textAt(status, 'name') ?? '',
  state: fieldsAt(status, 'state') ?? {},
  lastState: fieldsAt(status, 'lastState') ?? {},
})
