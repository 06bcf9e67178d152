// Deletes members that left the desired state, and nothing else. Labels are no proof of ownership: controllers and users copy them. A delete
// therefore also needs the object's uid in the inventory, and uses that uid as its precondition.

import type { Clock } from '@brokkr/runtime/clock.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import type { Kube } from '../client/kube.ts'
import { controllerOf, hasLabels, identityKey, identityOf, type KubeObject, type ObjectRef, refOf } from '../client/object.ts'
import { API_RETRY, type RetryPolicy, retrying } from '../client/retry.ts'
import { groupByReversePhase, type PhaseGroup } from './apply-order.ts'
import { type Member, PART_OF_LABEL } from './applyset.ts'
import { deleteObject, findFinalizers } from './delete-object.ts'
import { classifyFailure, type Failure } from './failure.ts'
import { findApplyEntry } from './managed-fields.ts'

export interface PruneRules {
  /** Identity keys of the members that stay. */
  desired: ReadonlySet<string>
  /** ApplySet, generator and stack: the object must not have other values, and must have those that prove ownership. */
  labels: Readonly<Record<string, string>>
  inventory: readonly Member[]
  /** Its apply entry proves that we wrote a planned member without uid. */
  fieldManager: string
  /** An annotation with which users keep an object. */
  keep?: { annotation: string; value: string }
}

/** `labels_differ`: another owner took over the object · `labels_missing`: recorded as ours, but its labels no longer prove it. */
export type KeepReason =
  | 'desired'
  | 'labels_differ'
  | 'labels_missing'
  | 'not_in_inventory'
  | 'other_uid'
  | 'has_controller'
  | 'kept_by_annotation'

export type PruneVerdict = { do: 'delete' } | { do: 'keep'; why: KeepReason }

/** Decides whether a live object may be deleted. Pure. */
export function judgePrune(object: KubeObject, rules: PruneRules, byKey = indexMembers(rules.inventory)): PruneVerdict {
  const keep = (why: KeepReason): PruneVerdict => ({ do: 'keep', why })
  const key = identityKey(identityOf(object))
  if (rules.desired.has(key)) return keep('desired')
  if (contradictsLabels(object, rules.labels)) return keep('labels_differ')
  const member = byKey.get(key)
  if (!member) return keep('not_in_inventory')
  if (member.uid === undefined ? !findApplyEntry(object, rules.fieldManager) : member.uid !== object.metadata.uid) return keep('other_uid')
  if (controllerOf(object)) return keep('has_controller')
  if (rules.keep && object.metadata.annotations?.[rules.keep.annotation] === rules.keep.value) return keep('kept_by_annotation')
  return hasLabels(object, provingLabels(rules.labels, member)) ? { do: 'delete' } : keep('labels_missing')
}

/** True if a label has another value. */
export const contradictsLabels = ({ metadata }: KubeObject, labels: Readonly<Record<string, string>>): boolean =>
  Object.entries(labels).some(([key, value]) => (metadata.labels?.[key] ?? value) !== value)

/** Members are listed by the ApplySet's label. An object with a recorded uid is known without it. */
function provingLabels(labels: Readonly<Record<string, string>>, { uid }: Member): Readonly<Record<string, string>> {
  if (uid === undefined) return labels
  const { [PART_OF_LABEL]: _set, ...others } = labels
  return others
}

export const indexMembers = (members: readonly Member[]): Map<string, Member> =>
  new Map(members.map((member) => [identityKey(member), member]))

export interface PruneOptions {
  concurrency?: number | undefined
  retry?: RetryPolicy | undefined
  /** Returns a reason to keep an object this time, such as a namespace that contains foreign objects. */
  hold?: ((object: KubeObject) => string | undefined) | undefined
  /** Time limit of a phase; earlier phases then wait for the next run. */
  phaseWaitMs?: number | undefined
  signal?: AbortSignal | undefined
}

export interface PruneOutcome {
  ref: ObjectRef
  uid: string
  /** going: deleted, finalizers still run · held: kept on purpose · waiting: an object of a later phase is still going. */
  action: 'deleted' | 'going' | 'held' | 'waiting' | 'failed'
  /** Why the object is kept, or the finalizers that run. */
  detail?: string
  failure?: Failure
}

/** Deletes objects, last phase first. Each must have been judged `delete`. */
export async function pruneObjects(
  deps: { kube: Kube; clock: Clock },
  objects: readonly KubeObject[],
  options: PruneOptions = {},
): Promise<PruneOutcome[]> {
  const outcomes: PruneOutcome[] = []
  let blocked = false
  for (const phase of groupByReversePhase(objects, (object) => object)) {
    if (blocked) outcomes.push(...phase.items.map((object) => outcome(object, 'waiting')))
    else outcomes.push(...(await prunePhase(deps, phase, options)))
    blocked ||= outcomes.some(({ action }) => action === 'going' || action === 'failed')
  }
  return outcomes
}

async function prunePhase(
  deps: { kube: Kube; clock: Clock },
  phase: PhaseGroup<KubeObject>,
  options: PruneOptions,
): Promise<PruneOutcome[]> {
  const first = await mapBounded(phase.items, options.concurrency ?? 8, (object) => pruneOne(deps, object, options), options.signal)
  const untilMs = deps.clock.monotonicMs() + (options.phaseWaitMs ?? 5_000)
  let outcomes = first
  for (let pauseMs = 20; outcomes.some(({ action }) => action === 'going'); pauseMs = Math.min(500, pauseMs * 2)) {
    outcomes = await mapBounded(outcomes, options.concurrency ?? 8, (item) => lookAgain(deps, item), options.signal)
    if (deps.clock.monotonicMs() >= untilMs) break
    if (outcomes.some(({ action }) => action === 'going')) await deps.clock.sleep(pauseMs, options.signal)
  }
  return outcomes
}

async function pruneOne(deps: { kube: Kube; clock: Clock }, object: KubeObject, options: PruneOptions): Promise<PruneOutcome> {
  const holdReason = options.hold?.(object)
  if (holdReason !== undefined) return { ...outcome(object, 'held'), detail: holdReason }
  try {
    const target = { ref: refOf(object), uid: object.metadata.uid ?? '' }
    const remainingObject = await retrying(deps, options.retry ?? API_RETRY, () => deleteObject(deps, target), options.signal)
    return outcome(object, remainingObject === 'gone' ? 'deleted' : 'going')
  } catch (error) {
    options.signal?.throwIfAborted()
    return { ...outcome(object, 'failed'), failure: classifyFailure(error) }
  }
}

async function lookAgain(deps: { kube: Kube }, item: PruneOutcome): Promise<PruneOutcome> {
  if (item.action !== 'going') return item
  // A failed read is no proof: the object counts as existing.
  const finalizers = await findFinalizers(deps, { ref: item.ref, uid: item.uid }).catch(() => [])
  return finalizers ? { ...item, detail: finalizers.join(', ') } : { ref: item.ref, uid: item.uid, action: 'deleted' }
}

const outcome = (object: KubeObject, action: PruneOutcome['action']): PruneOutcome => ({
  ref: refOf(object),
  uid: object.metadata.uid ?? '',
  action,
})
