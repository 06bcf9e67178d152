// Members of a stack after an attempt. Pure. An object that may still exist stays listed; otherwise it would never be pruned.
import {
  type ApplyOutcome,
  type ApplySet,
  type GroupKind,
  groupKindOf,
  groupKindText,
  identityKey,
  identityOf,
  indexMembers,
  type KubeObject,
  type Member,
  type PruneOutcome,
} from '@brokkr/kube'
import type { PruneBase } from '../stack-parents.ts'
import type { Step } from './plan.ts'

export interface AfterAttempt {
  readonly inventory: readonly Member[]
  readonly steps: readonly Step[]
  /** One outcome for each write step, in order. */
  readonly applied: readonly ApplyOutcome[]
  readonly pruned: readonly PruneOutcome[]
  /** Members that are not deleted yet. */
  readonly unprunedMembers: readonly KubeObject[]
  /** Kinds that could not be listed; whether their members exist is unknown. */
  readonly incomplete: readonly { readonly kind: GroupKind; readonly namespace: string }[]
}

export function listPresentMembers({ inventory, steps, applied, pruned, unprunedMembers, incomplete }: AfterAttempt): Member[] {
  const uids = new Map(applied.map(({ ref, uid }) => [identityKey(identityOfRef(ref)), uid]))
  const inventoryByKey = indexMembers(inventory)
  // A missing member that is not created again keeps its uid, so that the next attempt also reports it as missing.
  const desired = steps.map((step) =>
    toMember(step, uids.get(step.desired.key) ?? getUid(step) ?? inventoryByKey.get(step.desired.key)?.uid),
  )
  const desiredKeys = new Set(desired.map(identityKey))
  const remaining = [
    ...pruned.filter(({ action }) => action !== 'deleted').map(({ uid }) => uid),
    ...unprunedMembers.map(({ metadata }) => metadata.uid),
  ]
  const remainingUids = new Set(remaining.filter((uid) => uid !== undefined))
  // After a crash, a member may be stored without its uid.
  const unprunedKeys = new Set(unprunedMembers.map((object) => identityKey(identityOf(object))))
  const mayExist = (member: Member) =>
    (member.uid !== undefined && remainingUids.has(member.uid)) || unprunedKeys.has(identityKey(member)) || isUnlisted(member, incomplete)
  return [...desired, ...inventory.filter((member) => !desiredKeys.has(identityKey(member)) && mayExist(member))]
}

export const isUnlisted = (member: Member, incomplete: AfterAttempt['incomplete']): boolean =>
  incomplete.some(
    ({ kind, namespace }) => groupKindText(kind) === groupKindText(member) && (namespace === '' || namespace === member.namespace),
  )

/** Undesired members that could not be listed; they count as existing. */
export function countUnlisted({ inventory, steps, incomplete }: Pick<AfterAttempt, 'inventory' | 'steps' | 'incomplete'>): number {
  const desiredKeys = new Set(steps.map(({ desired }) => desired.key))
  return inventory.filter((member) => !desiredKeys.has(identityKey(member)) && isUnlisted(member, incomplete)).length
}

/** Stored while undesired members are held or unlisted, so that the next attempt prunes them; null: none. */
export const toPendingPrune = (
  objectId: string,
  { members, steps, remainingCount }: { members: readonly Member[]; steps: readonly Step[]; remainingCount: number },
): PruneBase | null => (members.length > steps.length ? { object_id: objectId, standing: remainingCount } : null)

const getUid = (step: Step): string | undefined => {
  if (step.do === 'create') return undefined
  return 'live' in step ? step.live.metadata.uid : step.uid
}

const identityOfRef = ({ apiVersion, kind, namespace = '', name }: ApplyOutcome['ref']) => ({
  ...groupKindOf({ apiVersion, kind }),
  namespace,
  name,
})

const toMember = ({ desired }: Step, uid: string | undefined): Member => ({
  ...identityOf(desired.object),
  ...(uid === undefined ? {} : { uid }),
})

/** Compares members, JSON data by text, and other data by length. */
export const isSameApplySet = (a: ApplySet, b: ApplySet): boolean => toText(a) === toText(b)

const toText = ({ kinds, namespaces, members, data }: ApplySet): string =>
  JSON.stringify([
    kinds.map(groupKindText),
    namespaces,
    members.map((member) => `${identityKey(member)} ${member.uid ?? ''}`).toSorted(),
    Object.entries(data)
      .map(([name, bytes]) => `${name} ${name.endsWith('.json') ? bytes.toString('utf8') : bytes.length}`)
      .toSorted(),
  ])
