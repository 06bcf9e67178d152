// Which members a stack has once an attempt is over. Pure. What may still stand stays listed: forgetting a member would leak it.
import type { ApplyOutcome } from '@brokkr/kube/apply-object.ts'
import type { ApplySet, Member } from '@brokkr/kube/applyset.ts'
import { type GroupKind, groupKindOf, groupKindText, identityKey, identityOf, type KubeObject } from '@brokkr/kube/object.ts'
import { indexMembers, type PruneOutcome } from '@brokkr/kube/prune.ts'
import type { Step } from './plan.ts'
import type { Basis } from './stack-parents.ts'

export interface AfterAttempt {
  readonly inventory: readonly Member[]
  readonly steps: readonly Step[]
  /** One for each written step, in their order. */
  readonly applied: readonly ApplyOutcome[]
  readonly pruned: readonly PruneOutcome[]
  /** Members that are left to stand for now. */
  readonly spared: readonly KubeObject[]
  /** What could not be listed, so nobody knows what of it is left. */
  readonly incomplete: readonly { readonly kind: GroupKind; readonly namespace: string }[]
}

export function presentMembers({ inventory, steps, applied, pruned, spared, incomplete }: AfterAttempt): Member[] {
  const uids = new Map(applied.map(({ ref, uid }) => [identityKey(identityOfRef(ref)), uid]))
  const known = indexMembers(inventory)
  // One that is missing and is not to be made anew keeps its uid: so it is known as missing the next time too.
  const desired = steps.map((step) => memberOf(step, uids.get(step.desired.key) ?? seenUid(step) ?? known.get(step.desired.key)?.uid))
  const listed = new Set(desired.map(identityKey))
  const left = [...pruned.filter(({ action }) => action !== 'deleted').map(({ uid }) => uid), ...spared.map(({ metadata }) => metadata.uid)]
  const going = new Set(left.filter((uid) => uid !== undefined))
  // A spared one may be known by name alone, as after a crash between writing it and noting its uid.
  const sparedKeys = new Set(spared.map((object) => identityKey(identityOf(object))))
  const mayStand = (member: Member) =>
    (member.uid !== undefined && going.has(member.uid)) || sparedKeys.has(identityKey(member)) || isUnseen(member, incomplete)
  return [...desired, ...inventory.filter((member) => !listed.has(identityKey(member)) && mayStand(member))]
}

const isUnseen = (member: Member, incomplete: AfterAttempt['incomplete']): boolean =>
  incomplete.some(
    ({ kind, namespace }) => groupKindText(kind) === groupKindText(member) && (namespace === '' || namespace === member.namespace),
  )

/** Members that the revision does not want and that nobody could look at: they count as standing until somebody can. */
export function unseenLeft({ inventory, steps, incomplete }: Pick<AfterAttempt, 'inventory' | 'steps' | 'incomplete'>): number {
  const wanted = new Set(steps.map(({ desired }) => desired.key))
  return inventory.filter((member) => !wanted.has(identityKey(member)) && isUnseen(member, incomplete)).length
}

/** While something that the revision dropped is left, held back or out of sight, it is looked for again; null: nothing is. */
export const basisAfter = (
  objectId: string,
  { members, steps, standing }: { members: readonly Member[]; steps: readonly Step[]; standing: number },
): Basis | null => (members.length > steps.length ? { object_id: objectId, standing } : null)

const seenUid = (step: Step): string | undefined => {
  if (step.do === 'create') return undefined
  return 'live' in step ? step.live.metadata.uid : step.uid
}

const identityOfRef = ({ apiVersion, kind, namespace = '', name }: ApplyOutcome['ref']) => ({
  ...groupKindOf({ apiVersion, kind }),
  namespace,
  name,
})

const memberOf = ({ desired }: Step, uid: string | undefined): Member => ({
  ...identityOf(desired.object),
  ...(uid === undefined ? {} : { uid }),
})

/** Members and notes alike. */
export const isSameSet = (a: ApplySet, b: ApplySet): boolean => textOf(a) === textOf(b)

const textOf = ({ kinds, namespaces, members, data }: ApplySet): string =>
  JSON.stringify([
    kinds.map(groupKindText),
    namespaces,
    members.map((member) => `${identityKey(member)} ${member.uid ?? ''}`).toSorted(),
    Object.entries(data)
      .map(([name, bytes]) => `${name} ${name.endsWith('.json') ? bytes.toString('utf8') : bytes.length}`)
      .toSorted(),
  ])
