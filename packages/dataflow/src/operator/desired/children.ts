// Further objects of a flow: checkpoint, rights of the processor, Service, PodMonitor. Pure.
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { KubeObject, ObjectRef } from '@brokkr/kube'
import { accountName, buildLabels, checkpointName, childMetadata, type Owner, serviceName } from '../names.ts'

const rbacVersion = 'rbac.authorization.k8s.io/v1'
export const podMonitorKind = { apiVersion: 'monitoring.coreos.com/v1', kind: 'PodMonitor' } as const

/** Created empty; only the processor writes its data. */
export const checkpoint = (owner: Owner): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: childMetadata(owner, checkpointName(owner)),
})

/** The processor may read and write its checkpoint, and nothing else. */
export function processorRights(owner: Owner): KubeObject[] {
  const name = accountName(owner)
  const metadata = childMetadata(owner, name)
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      apiVersion: rbacVersion,
      kind: 'Role',
      metadata,
      rules: [{ apiGroups: [''], resources: ['configmaps'], resourceNames: [checkpointName(owner)], verbs: ['get', 'update', 'patch'] }],
    },
    {
      apiVersion: rbacVersion,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace: owner.metadata.namespace ?? '' }],
    },
  ]
}

/** Headless: it only gives the processors' metrics a stable name. */
export const metricsService = (owner: Owner): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: childMetadata(owner, serviceName(owner)),
  spec: {
    clusterIP: 'None',
    selector: buildLabels(owner),
    ports: [{ name: 'metrics', port: 9090, targetPort: 'metrics', protocol: 'TCP' }],
  },
})

export const podMonitor = (owner: Owner): KubeObject => ({
  ...podMonitorKind,
  metadata: childMetadata(owner, serviceName(owner)),
  spec: { selector: { matchLabels: buildLabels(owner) }, podMetricsEndpoints: [{ port: 'metrics' }] },
})

export interface ChildrenPlan {
  readonly wanted: readonly KubeObject[]
  readonly unwanted: readonly ObjectRef[]
}

/** All children besides Secret and workload. */
export function planChildren(owner: Owner, flow: Flow, options: { readonly hasPodMonitors: boolean }): ChildrenPlan {
  const kept = [checkpoint(owner), ...processorRights(owner)]
  const monitors = options.hasPodMonitors ? [podMonitor(owner)] : []
  const common = owner.kind === 'DataFlow' ? [metricsService(owner), ...monitors] : monitors
  if (flow.checkpointPersistence) return { wanted: [...kept, ...common], unwanted: [] }
  const unwanted = kept.map(({ apiVersion, kind, metadata: { namespace, name } }) => ({ apiVersion, kind, namespace, name }))
  return { wanted: common, unwanted }
}
