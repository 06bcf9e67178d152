// Step for each member of a stack, from desired objects, live objects and inventory. Pure. A member with the expected hash and without
// foreign changes needs no request.
import {
  type ApplyItem,
  findOwnedPaths,
  hasLabels,
  hasManager,
  identityKey,
  identityOf,
  indexMembers,
  isTerminating,
  judgePrune,
  type KeepReason,
  type KubeObject,
  type Member,
} from '@brokkr/kube'
import type { DesiredObject } from './desired.ts'
import type { Path } from './ignore-fields.ts'
import { type AfterAttempt, isUnlisted } from './members-after-attempt.ts'
import { EARLIER_MANAGERS, FIELD_MANAGER, HASH_ANNOTATION, PRUNE, REPLACE } from './ownership-metadata.ts'

export type Step =
  /** `isGone`: the member existed while this object was applied, so another writer deleted it. */
  | { readonly do: 'create'; readonly desired: DesiredObject; readonly item: ApplyItem; readonly isGone: boolean }
  | (WriteStep<'update'> & { readonly uid: string | undefined })
  /** Desired before, but another writer may have changed it: needs a dry run. */
  | VerifyStep
  | { readonly do: 'unchanged'; readonly desired: DesiredObject; readonly uid: string | undefined }
  /** Another writer is deleting it; a write now would be lost. */
  | { readonly do: 'hold'; readonly desired: DesiredObject; readonly uid: string | undefined; readonly reason: 'terminating' }
interface WriteStep<Do extends string> {
  readonly do: Do
  readonly desired: DesiredObject
  readonly item: ApplyItem
  /** Ignored fields that the agent still owns: released before the apply, which would delete them otherwise. */
  readonly release: readonly Path[]
}
/** Only this step keeps the live object, because a large set needs much memory. */
export type VerifyStep = WriteStep<'verify'> & { readonly live: KubeObject }
/** Steps that can send a request. */
export const isWriteStep = (step: Step): step is Extract<Step, { do: 'create' | 'update' | 'verify' }> =>
  step.do === 'create' || step.do === 'update' || step.do === 'verify'

export interface Plan {
  /** In manifest order; apply sorts them into phases. */
  readonly steps: readonly Step[]
  /** Live objects that left the set and are proven to be owned. */
  readonly deletes: readonly KubeObject[]
  /** Live objects that left the set and are in the inventory, but whose labels no longer prove ownership. */
  readonly unproven: readonly KubeObject[]
  /** Number of existing members, including those to delete. */
  readonly existingCount: number
  readonly kept: readonly { readonly key: string; readonly why: KeepReason }[]
}
export interface PlanInput {
  readonly desired: readonly DesiredObject[]
  /** Metadata of all objects with the label of the set. */
  readonly live: readonly KubeObject[]
  readonly inventory: readonly Member[]
  /** Kinds that could not be listed: their members may exist although `live` lacks them. */
  readonly incomplete: AfterAttempt['incomplete']
  /** Ownership labels of every member: stack, owner, set. */
  readonly labels: Readonly<Record<string, string>>
  /** The deployment object was completely applied before. */
  readonly isInForce: boolean
  /** Another writer may have changed it since the last verification. */
  readonly isSuspect: (key: string, live: KubeObject) => boolean
}

export function planStack(input: PlanInput): Plan {
  const live = new Map(input.live.map((object) => [identityKey(identityOf(object)), object]))
  const membersByKey = indexMembers(input.inventory)
  const steps = input.desired.map((desired) => toStep(desired, live.get(desired.key), membersByKey.get(desired.key), input))
  const rules = {
    desired: new Set(input.desired.map(({ key }) => key)),
    labels: input.labels,
    inventory: input.inventory,
    fieldManager: FIELD_MANAGER,
    keep: PRUNE,
  }
  const decisions = [...live].map(([key, object]) => ({ key, object, verdict: judgePrune(object, rules, membersByKey) }))
  const deletes = decisions.filter(({ verdict }) => verdict.do === 'delete').map(({ object }) => object)
  return {
    steps,
    deletes,
    unproven: decisions.filter(({ verdict }) => verdict.do === 'keep' && verdict.why === 'labels_missing').map(({ object }) => object),
    existingCount: steps.filter((step) => step.do !== 'create').length + deletes.length,
    kept: decisions.flatMap(({ key, verdict }) => (verdict.do === 'keep' && verdict.why !== 'desired' ? [{ key, why: verdict.why }] : [])),
  }
}

function toStep(desired: DesiredObject, live: KubeObject | undefined, member: Member | undefined, input: PlanInput): Step {
  // No owned object is listed. If a foreign object has this name, the apply detects it.
  if (!live || !isOurs(live, member, input.labels))
    return {
      do: 'create',
      desired,
      item: { object: desired.fresh, expect: 'absent' },
      isGone: !live && input.isInForce && member?.uid !== undefined && !isUnlisted(member, input.incomplete),
    }
  const uid = live.metadata.uid
  if (isTerminating(live)) return { do: 'hold', desired, uid, reason: 'terminating' }
  if (isUnchanged(desired, live, member, input)) return { do: 'unchanged', desired, uid }
  const item = toUpdateItem(desired)
  const managers = [FIELD_MANAGER, ...EARLIER_MANAGERS]
  // List items are located by the manifest, because the metadata does not show them.
  const release = findOwnedPaths({ ...desired.uncut, metadata: live.metadata }, managers, desired.ignored)
  const isWanted = input.isInForce || live.metadata.annotations?.[HASH_ANNOTATION] === desired.hash
  if (isWanted) return { do: 'verify', desired, item, live, release }
  // The hash on the object differs and will change.
  const differs = { resourceVersion: live.metadata.resourceVersion, migrate: hasManager(live, EARLIER_MANAGERS) }
  return { do: 'update', desired, item: { ...item, differs }, uid, release }
}

/** How an existing owned object is written. */
export function toUpdateItem({ object }: DesiredObject): ApplyItem {
  const replace = object.metadata.annotations?.[REPLACE] === 'true'
  return { object, force: true, ...(replace ? { replace } : {}) }
}

/** Owned by its labels, or by the uid in the inventory if another writer removed them. */
const isOurs = (live: KubeObject, member: Member | undefined, labels: PlanInput['labels']): boolean =>
  hasLabels(live, labels) || (member?.uid !== undefined && member.uid === live.metadata.uid)

const isUnchanged = (desired: DesiredObject, live: KubeObject, member: Member | undefined, input: PlanInput): boolean =>
  live.metadata.annotations?.[HASH_ANNOTATION] === desired.hash &&
  hasLabels(live, input.labels) &&
  (member?.uid === undefined || member.uid === live.metadata.uid) &&
  !input.isSuspect(desired.key, live)
