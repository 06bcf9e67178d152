// Lists the members of a stack in the namespaces that the policy allows. Members outside are reported as incomplete: they stay in the
// inventory and are not changed.
import { type ApplySet, groupKindText, type ListMembersOptions, listMembers, type MemberList } from '@brokkr/kube'
import { isInScope, listAllowedNamespaces } from '../../policy/policy.ts'
import type { ReconcileDeps } from '../deps.ts'

export type ListedMembers = MemberList

export async function listInScope(
  deps: ReconcileDeps,
  set: ApplySet,
  signal: AbortSignal,
  options: Pick<ListMembersOptions, 'retry'> = {},
): Promise<ListedMembers> {
  const { policy, applyConcurrency: concurrency } = deps.settings
  if (listAllowedNamespaces(policy) === null) return listMembers(deps, set, { ...options, signal, concurrency })
  const isSeen = ({ namespace }: { namespace: string }) => isInScope(namespace, policy)
  const visible = set.members.filter(isSeen)
  const kinds = new Set(visible.map(groupKindText))
  const list = await listMembers(
    deps,
    {
      ...set,
      kinds: set.kinds.filter((kind) => kinds.has(groupKindText(kind))),
      namespaces: set.namespaces.filter((namespace) => isSeen({ namespace })),
    },
    // CustomResourceDefinitions are cluster-scoped, and this agent may only read its namespaces.
    { ...options, signal, concurrency, readsDefinitions: false },
  )
  const outside = set.members.filter((member) => !isSeen(member))
  const failure = {
    code: 'forbidden' as const,
    message: 'is outside of what this agent may touch (allowed_namespaces, watch_namespace)',
    retryable: false,
  }
  const unseen = outside.map(({ group, kind, namespace }) => ({ kind: { group, kind }, namespace, failure }))
  return { ...list, incomplete: [...list.incomplete, ...unseen] }
}
