// Reduces objects to the fields that the health check needs, because a cluster has many pods. Pure.
import { type Fields, fieldsAt, type KubeObject, type ObjectMeta, rowsAt, textAt } from '@brokkr/kube'
import { OBJECT_LABEL } from '../../reconcile/plan/ownership-metadata.ts'

/** Drops managed fields, annotations and data. */
export function trimMember({ apiVersion, kind, metadata, spec, status, ...rest }: KubeObject): KubeObject {
  const { managedFields: _fields, annotations: _annotations, ...trimmed } = metadata
  const binding = 'volumeBindingMode' in rest ? { volumeBindingMode: rest['volumeBindingMode'] } : {}
  return { apiVersion, kind, metadata: trimmed, ...(spec ? { spec } : {}), ...(status ? { status } : {}), ...binding }
}

/** Keeps identity and owners only, for kinds without status. */
export const trimToIdentity = ({ apiVersion, kind, metadata }: KubeObject): KubeObject => ({
  apiVersion,
  kind,
  metadata: toPresence(metadata),
})

export function trimPod(pod: KubeObject): KubeObject {
  const { status } = pod
  const text = (key: string) => (typeof status?.[key] === 'string' ? { [key]: status[key] } : {})
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: podMeta(pod.metadata),
    spec: { volumes: listClaims(pod) },
    status: {
      ...text('phase'),
      ...text('reason'),
      ...text('message'),
      conditions: rowsAt(status, 'conditions').filter(({ type }) => type === 'Ready' || type === 'PodScheduled'),
      containerStatuses: rowsAt(status, 'containerStatuses').map(toContainerState),
      initContainerStatuses: rowsAt(status, 'initContainerStatuses').map(toContainerState),
    },
  }
}

function podMeta(metadata: ObjectMeta): ObjectMeta {
  const objectId = metadata.labels?.[OBJECT_LABEL] ?? metadata.annotations?.[OBJECT_LABEL]
  return { ...toPresence(metadata), ...(objectId ? { labels: { [OBJECT_LABEL]: objectId } } : {}) }
}

const toPresence = ({ name, namespace, uid, ownerReferences, deletionTimestamp }: ObjectMeta): ObjectMeta => ({
  name,
  ...(namespace ? { namespace } : {}),
  ...(uid ? { uid } : {}),
  ...(ownerReferences ? { ownerReferences } : {}),
  ...(deletionTimestamp ? { deletionTimestamp } : {}),
})

const listClaims = (pod: KubeObject): Fields[] =>
  rowsAt(pod, 'spec', 'volumes').filter((volume) => fieldsAt(volume, 'persistentVolumeClaim') !== undefined)

const toContainerState = (status: Fields): Fields => ({
  name: textAt(status, 'name') ?? '',
  state: fieldsAt(status, 'state') ?? {},
  lastState: fieldsAt(status, 'lastState') ?? {},
})
