// Kinds that every API server serves under stable paths, so the first list needs no discovery. If such a path answers "not found", the kind
// is looked up after all. Pure.
import { groupOf, type Kind } from './object.ts'
import type { Resource } from './paths.ts'

/** By apiVersion: namespaced kinds, then cluster-scoped kinds; `Kind:plural` where the plural is not the kind with an s. */
const KINDS: Readonly<Record<string, readonly [namespaced: string, cluster: string]>> = {
  v1: [
    'ConfigMap Secret Pod Service ServiceAccount Endpoints:endpoints Event PersistentVolumeClaim ReplicationController PodTemplate LimitRange ResourceQuota',
    'Namespace Node PersistentVolume',
  ],
  'apps/v1': ['Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision', ''],
  'batch/v1': ['Job CronJob', ''],
  'autoscaling/v2': ['HorizontalPodAutoscaler', ''],
  'networking.k8s.io/v1': ['Ingress:ingresses NetworkPolicy:networkpolicies', 'IngressClass:ingressclasses'],
  'policy/v1': ['PodDisruptionBudget', ''],
  'rbac.authorization.k8s.io/v1': ['Role RoleBinding', 'ClusterRole ClusterRoleBinding'],
  'coordination.k8s.io/v1': ['Lease', ''],
  'discovery.k8s.io/v1': ['EndpointSlice', ''],
  'storage.k8s.io/v1': ['', 'StorageClass:storageclasses'],
  'apiextensions.k8s.io/v1': ['', 'CustomResourceDefinition'],
}

export type CollectionResource = Pick<Resource, 'group' | 'version' | 'plural' | 'namespaced'>

export function builtInResource({ apiVersion, kind }: Kind): CollectionResource | undefined {
  const lists = Object.hasOwn(KINDS, apiVersion) ? KINDS[apiVersion] : undefined
  if (!lists) return undefined
  for (const [at, list] of lists.entries()) {
    const entry = list.split(' ').find((one) => one !== '' && one.split(':')[0] === kind)
    if (!entry) continue
    const plural = entry.split(':')[1] ?? `${kind.toLowerCase()}s`
    return { group: groupOf(apiVersion), version: apiVersion.split('/').at(-1) ?? '', plural, namespaced: at === 0 }
  }
  return undefined
}
