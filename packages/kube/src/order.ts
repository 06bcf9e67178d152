// In which order objects of a set are written: what others stand on comes first. Deletion takes the phases backwards. Pure.
import { type GroupKind, groupKindOf, groupKindText, type Kind } from './object.ts'

export type Phase = 1 | 2 | 3 | 4 | 5 | 6 | 7

export const PHASES: readonly Phase[] = [1, 2, 3, 4, 5, 6, 7]

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
  // Last, because the pods that answer them exist by then.
  7: ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration', 'ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding',
      'MutatingAdmissionPolicy', 'MutatingAdmissionPolicyBinding'].map((kind) => `${kind}.admissionregistration.k8s.io`).concat('APIService.apiregistration.k8s.io'),
}

const PHASE_OF: ReadonlyMap<string, Phase> = new Map(PHASES.flatMap((phase) => (KINDS[phase] ?? []).map((kind) => [kind, phase] as const)))

/** Everything unnamed, custom resources above all, is of phase 6. */
export const phaseOf = (kind: GroupKind): Phase => PHASE_OF.get(groupKindText(kind)) ?? 6

export interface PhaseOf<T> {
  phase: Phase
  items: T[]
}

/** The phases that hold something, first to last; within one the given order stays. */
export function inPhases<T>(items: readonly T[], kindOf: (item: T) => Kind): PhaseOf<T>[] {
  return PHASES.map((phase) => ({ phase, items: items.filter((item) => phaseOf(groupKindOf(kindOf(item))) === phase) })).filter(
    ({ items: some }) => some.length > 0,
  )
}

export const inReversePhases = <T>(items: readonly T[], kindOf: (item: T) => Kind): PhaseOf<T>[] => inPhases(items, kindOf).toReversed()
