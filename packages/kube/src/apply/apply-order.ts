// The order in which members of an ApplySet are written: dependencies first. Deletion uses the reverse order. Pure.
import { type GroupKind, groupKindOf, groupKindText, type Kind } from '../client/object.ts'

export type Phase = 1 | 2 | 3 | 4 | 5 | 6 | 7

const PHASES: readonly Phase[] = [1, 2, 3, 4, 5, 6, 7]

const RBAC = 'rbac.authorization.k8s.io'

// biome-ignore format: a table
const KINDS: Readonly<Partial<Record<Phase, readonly string[]>>> = {
  1: ['Namespace'],
  2: ['CustomResourceDefinition.apiextensions.k8s.io'],
  3: ['PriorityClass.scheduling.k8s.io', 'StorageClass.storage.k8s.io', 'IngressClass.networking.k8s.io', 'RuntimeClass.node.k8s.io', 'ServiceAccount',
      `ClusterRole.${RBAC}`, `Role.${RBAC}`, `ClusterRoleBinding.${RBAC}`, `RoleBinding.${RBAC}`, 'ResourceQuota', 'LimitRange'],
  4: ['Secret', 'ConfigMap', 'PersistentVolume', 'PersistentVolumeClaim', 'Service', 'Endpoints', 'EndpointSlice.discovery.k8s.io', 'NetworkPolicy.networking.k8s.io'],
  5: ['Deployment.apps', 'StatefulSet.apps', 'DaemonSet.apps', 'ReplicaSet.apps', 'ReplicationController', 'Pod', 'Job.batch', 'CronJob.batch',
      'PodDisruptionBudget.policy', 'HorizontalPodAutoscaler.autoscaling'],
  // Last, because the pods behind these webhooks exist by then.
  7: ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration', 'ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding',
      'MutatingAdmissionPolicy', 'MutatingAdmissionPolicyBinding'].map((kind) => `${kind}.admissionregistration.k8s.io`).concat('APIService.apiregistration.k8s.io'),
}

const PHASE_OF: ReadonlyMap<string, Phase> = new Map(PHASES.flatMap((phase) => (KINDS[phase] ?? []).map((kind) => [kind, phase] as const)))

/** Kinds that are not listed, such as custom resources, belong to phase 6. */
export const getPhase = (kind: GroupKind): Phase => PHASE_OF.get(groupKindText(kind)) ?? 6

export interface PhaseGroup<T> {
  phase: Phase
  items: T[]
}

/** Non-empty phases in order; within a phase the given order is kept. */
export function groupByPhase<T>(items: readonly T[], kindOf: (item: T) => Kind): PhaseGroup<T>[] {
  return PHASES.map((phase) => ({ phase, items: items.filter((item) => getPhase(groupKindOf(kindOf(item))) === phase) })).filter(
    ({ items: some }) => some.length > 0,
  )
}

export const groupByReversePhase = <T>(items: readonly T[], kindOf: (item: T) => Kind): PhaseGroup<T>[] =>
  groupByPhase(items, kindOf).toReversed()
