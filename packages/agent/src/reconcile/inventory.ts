// Which members a stack has once an attempt is over. Pure. What may still stand stays listed: forgetting a member would leak it.
import type { ApplyOutcome } from '@brokkr/kube/apply-object.ts'
import type { ApplySet, Member } from '@brokkr/kube/applyset.ts'
import { type GroupKind, groupKindText, identityKey, identityOf } from '@brokkr/kube/object.ts'
import type { PruneOutcome } from '@brokkr/kube/prune.ts'
import { isWritten, type Step } from './plan.ts'

export interface AfterAttempt {
  readonly inventory: readonly Member[]
  readonly steps: readonly Step[]
  /** One for each written step, in their order. */
  readonly applied: readonly ApplyOutcome[]
  readonly pruned: readonly PruneOutcome[]
  /** What could not be listed, so nobody knows what of it is left. */
  readonly incomplete: readonly { readonly kind: GroupKind }[]
}

export function presentMembers({ inventory, steps, applied, pruned, incomplete }: AfterAttempt): Member[] {
  const written = new Map(steps.filter(isWritten).map((step, index) => [step, applied[index]?.uid]))
  const desired = steps.map((step) => memberOf(step, isWritten(step) ? written.get(step) : step.uid))
  const listed = new Set(desired.map(identityKey))
  const going = new Set(pruned.filter(({ action }) => action !== 'deleted').map(({ uid }) => uid))
  const unseen = new Set(incomplete.map(({ kind }) => groupKindText(kind)))
  const mayStand = (member: Member) => (member.uid !== undefined && going.has(member.uid)) || unseen.has(groupKindText(member))
  return [...desired, ...inventory.filter((member) => !listed.has(identityKey(member)) && mayStand(member))]
}

const memberOf = ({ desired }: Step, uid: string | undefined): Member => ({
  ...identityOf(desired.object),
  ...(uid === undefined ? {} : { uid }),
})

export const isSameSet = (a: ApplySet, b: ApplySet): boolean => textOf(a) === textOf(b)

const textOf = ({ kinds, namespaces, members }: ApplySet): string =>
  JSON.stringify([kinds.map(groupKindText), namespaces, members.map((member) => `${identityKey(member)} ${member.uid ?? ''}`).toSorted()])
