// The members that stand in the cluster, asked for while the parent is still being read: both are needed before anything is decided,
// and neither needs the other as long as the inventory is the one we know.
import { type ApplySet, emptyApplySet, widen } from '@brokkr/kube/applyset.ts'
import { groupKindText } from '@brokkr/kube/object.ts'
import { namespacesOf } from '../policy.ts'
import type { ReconcileDeps } from './deps.ts'
import { type ListedMembers, listInScope } from './list-in-scope.ts'
import { needsTenant } from './tenants.ts'

/** Takes the set as it turned out to be; null: the list does not cover it, or was never asked for. */
export type EarlyList = (set: ApplySet) => Promise<ListedMembers> | null

export function listEarly(deps: ReconcileDeps, stackId: string, signal: AbortSignal): EarlyList {
  const { settings, members, parents } = deps
  const known = members.membersOf(stackId)
  // As whom to ask, and where, is only certain in the plain case.
  if (known.length === 0 || needsTenant(settings.tenants) || namespacesOf(settings.policy) !== null) return () => null
  const asked = widen(emptyApplySet(parents.parentAt(stackId)), known)
  const listing = listInScope(deps, asked, signal)
  // Whether it failed matters only to whoever uses it.
  listing.catch(() => undefined)
  return (set) => (covers(asked, set) ? listing : null)
}

const covers = (asked: ApplySet, set: ApplySet): boolean => {
  const kinds = new Set(asked.kinds.map(groupKindText))
  const namespaces = new Set(asked.namespaces)
  return set.kinds.every((kind) => kinds.has(groupKindText(kind))) && set.namespaces.every((name) => namespaces.has(name))
}
