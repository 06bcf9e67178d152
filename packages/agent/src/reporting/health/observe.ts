// Reads the objects for the health check: members, and the pods and Jobs they own. One list per kind and namespace for all stacks;
// metadata only for kinds without status, so that no Secret is read.

import {
  apiVersionOf,
  type GroupKind,
  groupKindText,
  hasReason,
  identityKey,
  type Kind,
  type Kube,
  type KubeObject,
  type Member,
  selectorOf,
} from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { isInScope, listAllowedNamespaces, type Policy } from '../../policy/policy.ts'
import { OWNER_LABEL, STACK_LABEL } from '../../reconcile/plan/ownership-metadata.ts'
import { trimMember, trimPod, trimToIdentity } from './trim-objects.ts'

export interface ObserveDeps {
  readonly kube: Kube
  readonly agentId: string
  readonly policy: Policy
  /** The member from an existing watch; undefined: it must be read. */
  readonly watched?: ((member: Member) => WatchedKinds | undefined) | undefined
}
export interface WatchedKinds {
  readonly kind: Kind
  /** `goingSince`: deletion timestamp. */
  readonly seen: { readonly uid: string; readonly goingSince: string | null }
}
export interface Observation {
  /** By identity key; a listed kind without the object means that it does not exist. */
  readonly objects: ReadonlyMap<string, KubeObject>
  /** `Kind.group namespace` → reason why it could not be listed. */
  readonly unread: ReadonlyMap<string, 'Forbidden' | 'Unavailable'>
  readonly pods: readonly KubeObject[]
  /** Objects between a pod and a member, by uid: ReplicaSets, Jobs. */
  readonly between: ReadonlyMap<string, KubeObject>
  /** Storage classes whose volumes wait for a first pod. */
  readonly lazyClasses: ReadonlySet<string>
}

/** Kinds whose only state is their existence. */
// biome-ignore format: a table
const passive: ReadonlySet<string> = new Set([
  'ConfigMap', 'Secret', 'ServiceAccount', 'ResourceQuota', 'LimitRange', 'Endpoints', 'PersistentVolume', 'EndpointSlice.discovery.k8s.io',
  'NetworkPolicy.networking.k8s.io', 'IngressClass.networking.k8s.io', 'RuntimeClass.node.k8s.io', 'PriorityClass.scheduling.k8s.io',
  'StorageClass.storage.k8s.io', 'Role.rbac.authorization.k8s.io', 'RoleBinding.rbac.authorization.k8s.io', 'ClusterRole.rbac.authorization.k8s.io',
  'ClusterRoleBinding.rbac.authorization.k8s.io', 'ValidatingWebhookConfiguration.admissionregistration.k8s.io',
  'MutatingWebhookConfiguration.admissionregistration.k8s.io',
])
/** Kinds with a status that never own pods. */
// biome-ignore format: a table
const podless: ReadonlySet<string> = new Set([
  'Service', 'Namespace', 'PersistentVolumeClaim', 'Ingress.networking.k8s.io', 'APIService.apiregistration.k8s.io',
  'CustomResourceDefinition.apiextensions.k8s.io', 'HorizontalPodAutoscaler.autoscaling', 'PodDisruptionBudget.policy',
])
const between: readonly Kind[] = [
  { apiVersion: 'apps/v1', kind: 'ReplicaSet' },
  { apiVersion: 'batch/v1', kind: 'Job' },
  { apiVersion: 'apps/v1', kind: 'StatefulSet' },
  { apiVersion: 'apps/v1', kind: 'Deployment' },
]
/** Lists of intermediate kinds are recorded apart from those of members. */
export const betweenGroup = 'between'
const ownsPods: ReadonlySet<string> = new Set([
  'Pod',
  'ReplicationController',
  'ReplicaSet.apps',
  'StatefulSet.apps',
  'DaemonSet.apps',
  'Job.batch',
])

/** Kinds between a workload and its pods. */
export function betweenKinds(kind: string): readonly string[] {
  if (ownsPods.has(kind)) return []
  if (kind === 'Deployment.apps') return ['ReplicaSet']
  return kind === 'CronJob.batch' ? ['Job'] : between.map((each) => each.kind)
}
const parallel = 4
/** From this number of namespaces one cluster-wide list is cheaper. */
const wideFrom = 5

export const unreadKey = (kind: GroupKind, namespace: string): string => `${groupKindText(kind)} ${namespace}`
export const isWorkload = (kind: GroupKind): boolean => !passive.has(groupKindText(kind)) && !podless.has(groupKindText(kind))

/** An existing watch shows the complete state of the member, and it is healthy. */
export function isHealthyByWatch({ policy, watched }: Pick<ObserveDeps, 'policy' | 'watched'>, member: Member): boolean {
  if (!passive.has(groupKindText(member)) || !isInScope(member.namespace, policy)) return false
  const watchState = watched?.(member)?.seen
  return watchState !== undefined && watchState.uid === member.uid && watchState.goingSince === null
}

/** Namespaces in which pods are listed. */
export const findCrowdedNamespaces = (members: readonly Member[]): ReadonlySet<string> =>
  new Set(members.filter(isWorkload).map(({ namespace }) => namespace))

/** `stackId`: reads only the objects of this stack. */
export async function observe(
  deps: ObserveDeps,
  members: readonly Member[],
  stackId: string | null,
  signal: AbortSignal,
): Promise<Observation> {
  const reader = new ObservationReader(deps, signal)
  const labels = { [OWNER_LABEL]: deps.agentId, ...(stackId === null ? {} : { [STACK_LABEL]: stackId }) }
  const inScope = members.filter(({ namespace }) => isInScope(namespace, deps.policy))
  for (const member of members)
    if (!isInScope(member.namespace, deps.policy)) reader.unread.set(unreadKey(member, member.namespace), 'Forbidden')
  // An object that the watch lacks counts as missing only after a list.
  const unreadMembers = inScope.filter((member) => !reader.watched(member))
  const places = toListScopes(unreadMembers, listAllowedNamespaces(deps.policy) === null)
  await mapBounded(places, parallel, ({ kind, namespace }) => reader.members(kind, namespace, selectorOf(labels)), signal)
  await mapBounded([...findCrowdedNamespaces(inScope)], parallel, (namespace) => reader.children(namespace), signal)
  const claims = [...reader.objects.values()].some(({ kind, status }) => kind === 'PersistentVolumeClaim' && status?.['phase'] !== 'Bound')
  if (claims && listAllowedNamespaces(deps.policy) === null) await reader.storageClasses()
  return reader
}

function toListScopes(members: readonly Member[], mayBeWide: boolean): { kind: GroupKind; namespace: string }[] {
  const byKind = Map.groupBy(members, groupKindText)
  return [...byKind.values()].flatMap((some) => {
    const [first] = some
    if (!first) return []
    const kind = { group: first.group, kind: first.kind }
    const namespaces = [...new Set(some.map(({ namespace }) => namespace))]
    return mayBeWide && namespaces.length >= wideFrom ? [{ kind, namespace: '' }] : namespaces.map((namespace) => ({ kind, namespace }))
  })
}

class ObservationReader implements Observation {
  readonly objects = new Map<string, KubeObject>()
  readonly unread = new Map<string, 'Forbidden' | 'Unavailable'>()
  readonly pods: KubeObject[] = []
  readonly between = new Map<string, KubeObject>()
  readonly lazyClasses = new Set<string>()
  readonly #deps: ObserveDeps
  readonly #signal: AbortSignal

  constructor(deps: ObserveDeps, signal: AbortSignal) {
    this.#deps = deps
    this.#signal = signal
  }

  /** For kinds without status, a metadata watch shows everything. */
  watched(member: Member): boolean {
    const observed = passive.has(groupKindText(member)) ? this.#deps.watched?.(member) : undefined
    if (observed === undefined || observed.seen.uid !== member.uid) return false
    const { name, namespace, uid } = member
    const { goingSince } = observed.seen
    const metadata = { name, uid, ...(namespace ? { namespace } : {}), ...(goingSince === null ? {} : { deletionTimestamp: goingSince }) }
    this.objects.set(identityKey(member), { ...observed.kind, metadata })
    return true
  }

  async members(kind: GroupKind, namespace: string, labelSelector: string): Promise<void> {
    await this.#reading(kind, namespace, async () => {
      const { group, version } = await this.#deps.kube.discovery.resolveGroupKind(kind, this.#signal)
      const isPassive = passive.has(groupKindText(kind))
      const project = isPassive ? trimToIdentity : trimMember
      const call = { namespace, labelSelector, metadataOnly: isPassive, signal: this.#signal }
      for await (const page of this.#deps.kube.pages({ apiVersion: apiVersionOf(group, version), kind: kind.kind }, call))
        for (const object of page.items) this.objects.set(toMemberKey(kind, object), project(object))
    })
  }

  async children(namespace: string): Promise<void> {
    const call = { namespace, signal: this.#signal }
    await this.#reading({ group: '', kind: 'Pod' }, namespace, async () => {
      for await (const page of this.#deps.kube.pages({ apiVersion: 'v1', kind: 'Pod' }, call))
        for (const pod of page.items) this.pods.push(trimPod(pod))
    })
    for (const kind of between)
      await this.#reading({ group: betweenGroup, kind: kind.kind }, namespace, async () => {
        const project = kind.kind === 'Job' ? trimMember : trimToIdentity
        for await (const page of this.#deps.kube.pages(kind, { ...call, metadataOnly: kind.kind !== 'Job' }))
          for (const object of page.items) this.between.set(object.metadata.uid ?? '', project(object))
      })
  }

  async storageClasses(): Promise<void> {
    await this.#reading({ group: 'storage.k8s.io', kind: 'StorageClass' }, '', async () => {
      const { items } = await this.#deps.kube.list({ apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass' }, { signal: this.#signal })
      for (const each of items) if (each['volumeBindingMode'] === 'WaitForFirstConsumer') this.lazyClasses.add(each.metadata.name)
    })
  }

  async #reading(kind: GroupKind, namespace: string, read: () => Promise<void>): Promise<void> {
    try {
      await read()
    } catch (error) {
      this.#signal.throwIfAborted()
      // A kind that is not served has no objects: its members are missing, not unreadable.
      if (hasReason(error, 'UnknownKind')) return
      this.unread.set(unreadKey(kind, namespace), hasReason(error, 'Forbidden') ? 'Forbidden' : 'Unavailable')
    }
  }
}

const toMemberKey = (kind: GroupKind, { metadata }: KubeObject): string =>
  identityKey({ ...kind, namespace: metadata.namespace ?? '', name: metadata.name })
