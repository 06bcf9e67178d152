import { expect, test } from 'vitest'
import { apiVersionOf } from '../client/object.ts'
import { getPhase, groupByPhase, groupByReversePhase } from './apply-order.ts'
import { parseGroupKind } from './applyset.ts'

test.each([
  [1, 'Namespace'],
  [2, 'CustomResourceDefinition.apiextensions.k8s.io'],
  [3, 'PriorityClass.scheduling.k8s.io StorageClass.storage.k8s.io IngressClass.networking.k8s.io RuntimeClass.node.k8s.io ServiceAccount'],
  [3, 'ClusterRole.rbac.authorization.k8s.io Role.rbac.authorization.k8s.io ResourceQuota LimitRange'],
  [3, 'ClusterRoleBinding.rbac.authorization.k8s.io RoleBinding.rbac.authorization.k8s.io'],
  [
    4,
    'Secret ConfigMap PersistentVolume PersistentVolumeClaim Service Endpoints EndpointSlice.discovery.k8s.io NetworkPolicy.networking.k8s.io',
  ],
  [5, 'Deployment.apps StatefulSet.apps DaemonSet.apps ReplicaSet.apps ReplicationController Pod Job.batch CronJob.batch'],
  [5, 'PodDisruptionBudget.policy HorizontalPodAutoscaler.autoscaling'],
  [6, 'Ingress.networking.k8s.io Widget.example.com Service.serving.knative.dev Namespace.example.com'],
  [7, 'ValidatingWebhookConfiguration.admissionregistration.k8s.io MutatingWebhookConfiguration.admissionregistration.k8s.io'],
  [7, 'ValidatingAdmissionPolicy.admissionregistration.k8s.io ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io'],
  [7, 'APIService.apiregistration.k8s.io'],
])('phase %i contains %s', (phase, kinds) => {
  expect(kinds.split(' ').filter((kind) => getPhase(parseGroupKind(kind)) !== phase)).toEqual([])
})

const things = ['Widget.example.com', 'Pod', 'Secret', 'ConfigMap', 'Namespace'].map((text) => {
  const { group, kind } = parseGroupKind(text)
  return { apiVersion: apiVersionOf(group, 'v1'), kind }
})

test('groupByPhase returns phases in order and keeps the order within a phase', () => {
  expect(groupByPhase(things, (thing) => thing).map(({ phase, items }) => [phase, items.map(({ kind }) => kind)])).toEqual([
    [1, ['Namespace']],
    [4, ['Secret', 'ConfigMap']],
    [5, ['Pod']],
    [6, ['Widget']],
  ])
})

test('deletion uses the reverse order of phases', () => {
  expect(groupByReversePhase(things, (thing) => thing).map(({ phase }) => phase)).toEqual([6, 5, 4, 1])
})
