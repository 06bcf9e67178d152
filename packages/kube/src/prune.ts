// Deleting what a set no longer wants, and nothing else. Labels alone prove nothing: controllers copy them to what they make, people copy
// whole objects. So a delete also needs the object's uid in our inventory, and goes out with that uid as its condition.

import type { Clock } from '@brokkr/runtime/clock.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import type { Member } from './applyset.ts'
import { type Failure, failureOf } from './failure.ts'
import { removeObject, whatHolds } from './gone.ts'
import type { Kube } from './kube.ts'
import { applyEntryOf } from './managed-fields.ts'
import { controllerOf, hasLabels, identityKey, identityOf, type KubeObject, type ObjectRef, refOf } from './object.ts'
import { inReversePhases, type PhaseOf } from './order.ts'
import { API_RETRY, type RetryPolicy, retrying } from './retry.ts'

export interface PruneRules {
  /** Identity keys of what stays. */
  desired: ReadonlySet<string>
  /** All of them must stand on the object: set, owner, stack. */
  labels: Readonly<Record<string, string>>
  inventory: readonly Member[]
  /** Its apply entry proves that a planned member without uid was written by us. */
  fieldManager: string
  /** An annotation by which people keep an object. */
  keep?: { annotation: string; value: string }
}

export type KeepReason = 'desired' | 'labels_differ' | 'not_in_inventory' | 'other_uid' | 'has_controller' | 'kept_by_annotation'

export type PruneVerdict = { do: 'delete' } | { do: 'keep'; why: KeepReason }

/** Pure: may this live object be deleted? */
export function judgePrune(object: KubeObject, rules: PruneRules, byKey = indexMembers(rules.inventory)): PruneVerdict {
  const keep = (why: KeepReason): PruneVerdict => ({ do: 'keep', why })
  const key = identityKey(identityOf(object))
  if (rules.desired.has(key)) return keep('desired')
  if (!hasLabels(object, rules.labels)) return keep('labels_differ')
  const member = byKey.get(key)
  if (!member) return keep('not_in_inventory')
  if (member.uid === undefined ? !applyEntryOf(object, rules.fieldManager) : member.uid !== object.metadata.uid) return keep('other_uid')
  if (controllerOf(object)) return keep('has_controller')
  if (rules.keep && object.metadata.annotations?.[rules.keep.annotation] === rules.keep.value) return keep('kept_by_annotation')
  return { do: 'delete' }
}

export const indexMembers = (members: readonly Member[]): Map<string, Member> =>
  new Map(members.map((member) => [identityKey(member), member]))

export interface PruneOptions {
  concurrency?: number | undefined
  retry?: RetryPolicy | undefined
  /** A reason to leave an object this time, such as a namespace that holds what belongs to others. */
  hold?: ((object: KubeObject) => string | undefined) | undefined
  /** How long a phase may take to be gone before the phases below it are left for the next run. */
  phaseWaitMs?: number | undefined
  signal?: AbortSignal | undefined
}

export interface PruneOutcome {
  ref: ObjectRef
  uid: string
  /** going: deleted, finalizers still run · held: left on purpose · waiting: something above it is still going. */
  action: 'deleted' | 'going' | 'held' | 'waiting' | 'failed'
  /** Why it is held, or the finalizers that run. */
  detail?: string
  failure?: Failure
}

/** Deletes the objects, last phase first. Each must have been judged `delete`. */
export async function pruneObjects(
  deps: { kube: Kube; clock: Clock },
  objects: readonly KubeObject[],
  options: PruneOptions = {},
): Promise<PruneOutcome[]> {
  const outcomes: PruneOutcome[] = []
  let blocked = false
  for (const phase of inReversePhases(objects, (object) => object)) {
    if (blocked) outcomes.push(...phase.items.map((object) => outcome(object, 'waiting')))
    else outcomes.push(...(await prunePhase(deps, phase, options)))
    blocked ||= outcomes.some(({ action }) => action === 'going' || action === 'failed')
  }
  return outcomes
}

async function prunePhase(deps: { kube: Kube; clock: Clock }, phase: PhaseOf<KubeObject>, options: PruneOptions): Promise<PruneOutcome[]> {
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
  const held = options.hold?.(object)
  if (held !== undefined) return { ...outcome(object, 'held'), detail: held }
  try {
    const target = { ref: refOf(object), uid: object.metadata.uid ?? '' }
    const left = await retrying(deps, options.retry ?? API_RETRY, () => removeObject(deps, target), options.signal)
    return outcome(object, left === 'gone' ? 'deleted' : 'going')
  } catch (error) {
    options.signal?.throwIfAborted()
    return { ...outcome(object, 'failed'), failure: failureOf(error) }
  }
}

async function lookAgain(deps: { kube: Kube }, item: PruneOutcome): Promise<PruneOutcome> {
  if (item.action !== 'going') return item
  // A look that fails proves nothing: the object counts as still there.
  const finalizers = await whatHolds(deps, { ref: item.ref, uid: item.uid }).catch(() => [])
  return finalizers ? { ...item, detail: finalizers.join(', ') } : { ref: item.ref, uid: item.uid, action: 'deleted' }
}

const outcome = (object: KubeObject, action: PruneOutcome['action']): PruneOutcome => ({
  ref: refOf(object),
  uid: object.metadata.uid ?? '',
  action,
})
