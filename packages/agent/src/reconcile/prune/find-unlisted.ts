// Reads members that the inventory names and the list by label lacks: another writer may have removed the label, and the object must not
// be leaked.

import {
  type ApplySet,
  apiVersionOf,
  classifyFailure,
  contradictsLabels,
  groupKindText,
  identityKey,
  identityOf,
  isObjectNotFound,
  type KubeObject,
  type Member,
  READ_RETRY,
  retrying,
} from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { type ListedMembers, listInScope } from '../apply/list-in-scope.ts'
import type { PrefetchedMembers } from '../apply/prefetch-members.ts'
import type { ReconcileDeps } from '../deps.ts'
import { isUnlisted } from '../plan/members-after-attempt.ts'
import { toOwnershipLabels } from '../plan/ownership-metadata.ts'

/** Live members before an attempt. For desired members the apply finds out whether they exist without their labels. */
export async function listLive(
  deps: ReconcileDeps,
  stackId: string,
  {
    parent: { set },
    prefetchedMembers,
    desired,
  }: { parent: { set: ApplySet }; prefetchedMembers: PrefetchedMembers; desired: readonly { key: string }[] },
  signal: AbortSignal,
): Promise<ListedMembers> {
  const first = await prefetchedMembers(set)
  const list = first?.incomplete.length === 0 ? first : await listInScope(deps, set, signal)
  const desiredKeys = new Set(desired.map(({ key }) => key))
  const dropped = set.members.filter((member) => !desiredKeys.has(identityKey(member)))
  await findUnlisted(deps, stackId, dropped, list, signal)
  return list
}

/** Adds existing members to the list, and unreadable ones to its incomplete kinds. Skips objects that another owner took over. */
export async function findUnlisted(
  deps: ReconcileDeps,
  stackId: string,
  members: readonly Member[],
  list: ListedMembers,
  signal: AbortSignal,
): Promise<void> {
  const listedKeys = new Set(list.members.map((object) => identityKey(identityOf(object))))
  const absent = new Set(list.absent.map(groupKindText))
  const mayExist = (member: Member) => !isUnlisted(member, list.incomplete) && !absent.has(groupKindText(member))
  const missing = members.filter((member) => !listedKeys.has(identityKey(member)) && mayExist(member))
  const labels = toOwnershipLabels({ stackId, agentId: deps.agentId, applySetId: deps.parents.setId(stackId) })
  await mapBounded(
    missing,
    deps.settings.applyConcurrency,
    async (member) => {
      const { group, kind, namespace } = member
      try {
        const object = await retrying(deps, READ_RETRY, () => findMember(deps, member, signal), signal)
        if (object && !contradictsLabels(object, labels)) list.members.push(object)
      } catch (error) {
        signal.throwIfAborted()
        list.incomplete.push({ kind: { group, kind }, namespace, failure: classifyFailure(error) })
      }
    },
    signal,
  )
}

/** Undefined: deleted, or another object has this name. */
async function findMember({ kube }: ReconcileDeps, member: Member, signal: AbortSignal): Promise<KubeObject | undefined> {
  try {
    const { group, version } = await kube.discovery.resolveGroupKind(member, signal)
    const ref = { apiVersion: apiVersionOf(group, version), kind: member.kind, namespace: member.namespace, name: member.name }
    const object = await kube.get(ref, { metadataOnly: true, signal })
    return member.uid === undefined || member.uid === object.metadata.uid ? object : undefined
  } catch (error) {
    if (isObjectNotFound(error)) return undefined
    throw error
  }
}
