// The members of a stack that stand in the cluster, as far as this cluster's policy lets us look. What lies outside is told as
// unseen: it stays in the inventory, and nothing is done to it.
import type { ApplySet } from '@brokkr/kube/applyset.ts'
import { listMembers, type MemberList } from '@brokkr/kube/applyset-store.ts'
import { groupKindText } from '@brokkr/kube/object.ts'
import { isInScope, namespacesOf } from '../policy.ts'
import type { ReconcileDeps } from './deps.ts'

export type ListedMembers = MemberList

export async function listInScope(deps: ReconcileDeps, set: ApplySet, signal: AbortSignal): Promise<ListedMembers> {
  const { policy, applyConcurrency: concurrency } = deps.settings
  if (namespacesOf(policy) === null) return listMembers(deps, set, { signal, concurrency })
  const isSeen = ({ namespace }: { namespace: string }) => isInScope(namespace, policy)
  const seen = set.members.filter(isSeen)
  const kinds = new Set(seen.map(groupKindText))
  const listed = await listMembers(
    deps,
    {
      ...set,
      kinds: set.kinds.filter((kind) => kinds.has(groupKindText(kind))),
      namespaces: set.namespaces.filter((namespace) => isSeen({ namespace })),
    },
    // Definitions are the cluster's, and this agent may not look beyond its namespaces.
    { signal, concurrency, trustsDiscovery: true },
  )
  const outside = set.members.filter((member) => !isSeen(member))
  const failure = {
    code: 'forbidden' as const,
    message: 'is outside of what this agent may touch (allowed_namespaces, watch_namespace)',
    retryable: false,
  }
  const unseen = outside.map(({ group, kind, namespace }) => ({ kind: { group, kind }, namespace, failure }))
  return { members: listed.members, incomplete: [...listed.incomplete, ...unseen] }
}
