// What to do with each member of a stack, from what should be, what stands, and what we wrote down. Pure: same input, same plan.
// A member whose hash is the one we left on it, untouched by others, needs no request at all.
import type { ApplyItem } from '@brokkr/kube/apply-object.ts'
import type { Member } from '@brokkr/kube/applyset.ts'
import { hasManager } from '@brokkr/kube/managed-fields.ts'
import { hasLabels, identityKey, identityOf, isTerminating, type KubeObject } from '@brokkr/kube/object.ts'
import { indexMembers, judgePrune, type KeepReason } from '@brokkr/kube/prune.ts'
import { heldPaths } from '@brokkr/kube/release-fields.ts'
import type { DesiredObject } from './desired.ts'
import type { Path } from './ignore-fields.ts'
import { EARLIER_MANAGERS, FIELD_MANAGER, HASH_ANNOTATION, PRUNE, REPLACE } from './marks.ts'

export type Step =
  /** `isGone`: it stood there while this revision was in force, so another hand took it away. */
  | { readonly do: 'create'; readonly desired: DesiredObject; readonly item: ApplyItem; readonly isGone: boolean }
  | (WriteStep<'update'> & { readonly uid: string | undefined })
  /** What we wanted before, but another hand may have changed it: a dry run tells. */
  | VerifyStep
  | { readonly do: 'unchanged'; readonly desired: DesiredObject; readonly uid: string | undefined }
  /** It is on its way out by another hand; what we would write now goes with it. */
  | { readonly do: 'hold'; readonly desired: DesiredObject; readonly uid: string | undefined; readonly reason: 'terminating' }
interface WriteStep<Do extends string> {
  readonly do: Do
  readonly desired: DesiredObject
  readonly item: ApplyItem
  /** Fields that are others' to set and that we still own: let go before anything is applied, or the apply would delete them. */
  readonly release: readonly Path[]
}
/** The only one that keeps what stands: it is much, and a large set takes its time. */
export type VerifyStep = WriteStep<'verify'> & { readonly live: KubeObject }
/** The steps that may send something. */
export const isWritten = (step: Step): step is Extract<Step, { do: 'create' | 'update' | 'verify' }> =>
  step.do === 'create' || step.do === 'update' || step.do === 'verify'

export interface Plan {
  /** In the order of the manifest; apply puts them into phases. */
  readonly steps: readonly Step[]
  /** Live objects that left the set and are proven ours. */
  readonly deletes: readonly KubeObject[]
  /** Members of ours that stand, those that are to go included. */
  readonly standing: number
  readonly kept: readonly { readonly key: string; readonly why: KeepReason }[]
}
export interface PlanInput {
  readonly desired: readonly DesiredObject[]
  /** Metadata of everything that carries the set's label. */
  readonly live: readonly KubeObject[]
  readonly inventory: readonly Member[]
  /** What stands on every member: stack, owner, set. */
  readonly labels: Readonly<Record<string, string>>
  /** The revision was completely applied before. */
  readonly isInForce: boolean
  /** Another hand may have changed it since we last looked. */
  readonly isSuspect: (key: string, live: KubeObject) => boolean
}

export function planStack(input: PlanInput): Plan {
  const live = new Map(input.live.map((object) => [identityKey(identityOf(object)), object]))
  const known = indexMembers(input.inventory)
  const steps = input.desired.map((desired) => stepOf(desired, live.get(desired.key), known.get(desired.key), input))
  const rules = {
    desired: new Set(input.desired.map(({ key }) => key)),
    labels: input.labels,
    inventory: input.inventory,
    fieldManager: FIELD_MANAGER,
    keep: PRUNE,
  }
  const judged = [...live].map(([key, object]) => ({ key, object, verdict: judgePrune(object, rules, known) }))
  const deletes = judged.filter(({ verdict }) => verdict.do === 'delete').map(({ object }) => object)
  return {
    steps,
    deletes,
    standing: steps.filter((step) => step.do !== 'create').length + deletes.length,
    kept: judged.flatMap(({ key, verdict }) => (verdict.do === 'keep' && verdict.why !== 'desired' ? [{ key, why: verdict.why }] : [])),
  }
}

function stepOf(desired: DesiredObject, live: KubeObject | undefined, member: Member | undefined, input: PlanInput): Step {
  // Nothing of ours is seen there. Whether something foreign stands under the name, the apply finds out and then stops.
  if (!live || !isOurs(live, member, input.labels))
    return {
      do: 'create',
      desired,
      item: { object: desired.fresh, expect: 'absent' },
      isGone: !live && input.isInForce && member?.uid !== undefined,
    }
  const uid = live.metadata.uid
  if (isTerminating(live)) return { do: 'hold', desired, uid, reason: 'terminating' }
  if (isUntouched(desired, live, member, input)) return { do: 'unchanged', desired, uid }
  const item = updateItem(desired)
  const managers = [FIELD_MANAGER, ...EARLIER_MANAGERS]
  // Lists are walked by what the manifest says stands in them: the metadata at hand does not tell.
  const release = heldPaths({ ...desired.uncut, metadata: live.metadata }, managers, desired.ignored)
  const isWanted = input.isInForce || live.metadata.annotations?.[HASH_ANNOTATION] === desired.hash
  if (isWanted) return { do: 'verify', desired, item, live, release }
  // Another hash stands on it, which at least is going to change.
  const differs = { resourceVersion: live.metadata.resourceVersion, migrate: hasManager(live, EARLIER_MANAGERS) }
  return { do: 'update', desired, item: { ...item, differs }, uid, release }
}

/** How an object that stands and is ours is written. */
export function updateItem({ object }: DesiredObject): ApplyItem {
  const replace = object.metadata.annotations?.[REPLACE] === 'true'
  return { object, force: true, ...(replace ? { replace } : {}) }
}

/** By its marks, or, where somebody took them off, by being the very object that we wrote down. */
const isOurs = (live: KubeObject, member: Member | undefined, labels: PlanInput['labels']): boolean =>
  hasLabels(live, labels) || (member?.uid !== undefined && member.uid === live.metadata.uid)

const isUntouched = (desired: DesiredObject, live: KubeObject, member: Member | undefined, input: PlanInput): boolean =>
  live.metadata.annotations?.[HASH_ANNOTATION] === desired.hash &&
  hasLabels(live, input.labels) &&
  (member?.uid === undefined || member.uid === live.metadata.uid) &&
  !input.isSuspect(desired.key, live)
