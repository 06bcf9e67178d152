// Lists the members while the parent is still being read. Both are needed, and the request does not depend on the parent while the
// inventory is cached.
import { type ApplySet, addPlannedMembers, emptyApplySet, groupKindText, NO_RETRY } from '@brokkr/kube'
import { listAllowedNamespaces } from '../../policy/policy.ts'
import type { ReconcileDeps } from '../deps.ts'
import { needsGenerator } from '../stack-generators.ts'
import { type ListedMembers, listInScope } from './list-in-scope.ts'

/** Receives the set of the parent; null if the list does not cover it or was not sent. */
export type PrefetchedMembers = (set: ApplySet) => Promise<ListedMembers> | null

export function prefetchMembers(deps: ReconcileDeps, stackId: string, signal: AbortSignal): PrefetchedMembers {
  const { settings, members, parents } = deps
  const cachedMembers = members.listMembers(stackId)
  // Identity and namespaces are known in advance only without generator rules and without a namespace list.
  if (cachedMembers.length === 0 || needsGenerator(settings.tenants) || listAllowedNamespaces(settings.policy) !== null) return () => null
  const requestedSet = addPlannedMembers(emptyApplySet(parents.parentAt(stackId)), cachedMembers)
  // A failed list is repeated with retries after the parent was read.
  const listing = listInScope(deps, requestedSet, signal, { retry: NO_RETRY })
  listing.catch(() => undefined)
  return (set) => (covers(requestedSet, set) ? listing : null)
}

const covers = (requestedSet: ApplySet, set: ApplySet): boolean => {
  const kinds = new Set(requestedSet.kinds.map(groupKindText))
  const namespaces = new Set(requestedSet.namespaces)
  return set.kinds.every((kind) => kinds.has(groupKindText(kind))) && set.namespaces.every((name) => namespaces.has(name))
}
