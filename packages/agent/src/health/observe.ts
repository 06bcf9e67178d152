// Reads what health is judged by: the members of stacks, and the pods and jobs that they brought about. One list per kind and
// namespace, whatever the number of stacks; of kinds that have no state only metadata, so that no Secret is ever read for it.

import { hasReason } from '@brokkr/kube/api-error.ts'
import type { Member } from '@brokkr/kube/applyset.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { apiVersionOf, type GroupKind, groupKindText, identityKey, type Kind, type KubeObject, selectorOf } from '@brokkr/kube/object.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { isInScope, namespacesOf, type Policy } from '../policy.ts'
import { OWNER_LABEL, STACK_LABEL } from '../reconcile/marks.ts'
import { projectMember, projectPod, projectPresence } from './project.ts'

export interface ObserveDeps {
  readonly kube: Kube
  readonly agentId: string
  readonly policy: Policy
  /** A member as a watch that is there anyway shows it; undefined: it has to be asked for. */
  readonly watched?: ((member: Member) => Watched | undefined) | undefined
}
export interface Watched {
  readonly kind: Kind
  /** `goingSince`: when its deletion began. */
  readonly seen: { readonly uid: string; readonly goingSince: string | null }
}
export interface Observation {
  /** By identity key; what was listed and is not here does not exist. */
  readonly objects: ReadonlyMap<string, KubeObject>
  /** `Kind.group namespace` → why it could not be listed. */
  readonly unread: ReadonlyMap<string, 'Forbidden' | 'Unavailable'>
  readonly pods: readonly KubeObject[]
  /** What may stand between a pod and a member, by uid: ReplicaSets, Jobs. */
  readonly between: ReadonlyMap<string, KubeObject>
  /** Storage classes whose volumes wait for a first pod. */
  readonly lazyClasses: ReadonlySet<string>
}

/** Nothing but being there can be said of them. */
// biome-ignore format: a table
const passive: ReadonlySet<string> = new Set([
  'ConfigMap', 'Secret', 'ServiceAccount', 'ResourceQuota', 'LimitRange', 'Endpoints', 'PersistentVolume', 'EndpointSlice.discovery.k8s.io',
  'NetworkPolicy.networking.k8s.io', 'IngressClass.networking.k8s.io', 'RuntimeClass.node.k8s.io', 'PriorityClass.scheduling.k8s.io',
  'StorageClass.storage.k8s.io', 'Role.rbac.authorization.k8s.io', 'RoleBinding.rbac.authorization.k8s.io', 'ClusterRole.rbac.authorization.k8s.io',
  'ClusterRoleBinding.rbac.authorization.k8s.io', 'ValidatingWebhookConfiguration.admissionregistration.k8s.io',
  'MutatingWebhookConfiguration.admissionregistration.k8s.io',
])
/** Kinds with a state of their own that never stand above a pod. */
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
const parallel = 4
/** From so many namespaces on one list over the whole cluster costs less than one for each. */
const wideFrom = 5

export const unreadKey = (kind: GroupKind, namespace: string): string => `${groupKindText(kind)} ${namespace}`
export const isWorkload = (kind: GroupKind): boolean => !passive.has(groupKindText(kind)) && !podless.has(groupKindText(kind))

/** A watch that is there anyway shows all that could be said of it, and that it is well. */
export function isSeenWell({ policy, watched }: Pick<ObserveDeps, 'policy' | 'watched'>, member: Member): boolean {
  if (!passive.has(groupKindText(member)) || !isInScope(member.namespace, policy)) return false
  const seen = watched?.(member)?.seen
  return seen !== undefined && seen.uid === member.uid && seen.goingSince === null
}

/** Where pods are looked for. */
export const crowdedBy = (members: readonly Member[]): ReadonlySet<string> =>
  new Set(members.filter(isWorkload).map(({ namespace }) => namespace))

/** `stackId`: only this one is asked for. */
export async function observe(
  deps: ObserveDeps,
  members: readonly Member[],
  stackId: string | null,
  signal: AbortSignal,
): Promise<Observation> {
  const seen = new Observing(deps, signal)
  const labels = { [OWNER_LABEL]: deps.agentId, ...(stackId === null ? {} : { [STACK_LABEL]: stackId }) }
  const inScope = members.filter(({ namespace }) => isInScope(namespace, deps.policy))
  for (const member of members)
    if (!isInScope(member.namespace, deps.policy)) seen.unread.set(unreadKey(member, member.namespace), 'Forbidden')
  // What is not seen there is only called missing once a list has said so.
  const open = inScope.filter((member) => !seen.watched(member))
  const places = placesOf(open, namespacesOf(deps.policy) === null)
  await mapBounded(places, parallel, ({ kind, namespace }) => seen.members(kind, namespace, selectorOf(labels)), signal)
  await mapBounded([...crowdedBy(inScope)], parallel, (namespace) => seen.children(namespace), signal)
  const claims = [...seen.objects.values()].some(({ kind, status }) => kind === 'PersistentVolumeClaim' && status?.['phase'] !== 'Bound')
  if (claims && namespacesOf(deps.policy) === null) await seen.storageClasses()
  return seen
}

function placesOf(members: readonly Member[], mayBeWide: boolean): { kind: GroupKind; namespace: string }[] {
  const byKind = Map.groupBy(members, groupKindText)
  return [...byKind.values()].flatMap((some) => {
    const [first] = some
    if (!first) return []
    const kind = { group: first.group, kind: first.kind }
    const namespaces = [...new Set(some.map(({ namespace }) => namespace))]
    return mayBeWide && namespaces.length >= wideFrom ? [{ kind, namespace: '' }] : namespaces.map((namespace) => ({ kind, namespace }))
  })
}

class Observing implements Observation {
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

  /** Of what has no state of its own, a watch of metadata shows all there is to judge. */
  watched(member: Member): boolean {
    const found = passive.has(groupKindText(member)) ? this.#deps.watched?.(member) : undefined
    if (found === undefined || found.seen.uid !== member.uid) return false
    const { name, namespace, uid } = member
    const { goingSince } = found.seen
    const metadata = { name, uid, ...(namespace ? { namespace } : {}), ...(goingSince === null ? {} : { deletionTimestamp: goingSince }) }
    this.objects.set(identityKey(member), { ...found.kind, metadata })
    return true
  }

  async members(kind: GroupKind, namespace: string, labelSelector: string): Promise<void> {
    await this.#reading(kind, namespace, async () => {
      const { group, version } = await this.#deps.kube.discovery.resolveGroupKind(kind, this.#signal)
      const isPassive = passive.has(groupKindText(kind))
      const project = isPassive ? projectPresence : projectMember
      const call = { namespace, labelSelector, metadataOnly: isPassive, signal: this.#signal }
      for await (const page of this.#deps.kube.pages({ apiVersion: apiVersionOf(group, version), kind: kind.kind }, call))
        for (const object of page.items) this.objects.set(keyOf(kind, object), project(object))
    })
  }

  async children(namespace: string): Promise<void> {
    const call = { namespace, signal: this.#signal }
    await this.#reading({ group: '', kind: 'Pod' }, namespace, async () => {
      for await (const page of this.#deps.kube.pages({ apiVersion: 'v1', kind: 'Pod' }, call))
        for (const pod of page.items) this.pods.push(projectPod(pod))
    })
    for (const kind of between)
      await this.#reading({ group: 'between', kind: kind.kind }, namespace, async () => {
        const project = kind.kind === 'Job' ? projectMember : projectPresence
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

const keyOf = (kind: GroupKind, { metadata }: KubeObject): string =>
  identityKey({ ...kind, namespace: metadata.namespace ?? '', name: metadata.name })
