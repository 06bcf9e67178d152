// The dry runs of what a new revision changes in a small stack, sent while parent and members are still being read: they write
// nothing, so they need not wait for the plan. One counts only if the plan then wants this very write; else it is made again there.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ApplyItem, type Trial, tryObject } from '@brokkr/kube/apply-object.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import { groupKindOf } from '@brokkr/kube/object.ts'
import { phaseOf } from '@brokkr/kube/order.ts'
import { NO_RETRY } from '@brokkr/kube/retry.ts'
import { namespacesOf } from '../policy.ts'
import type { ApplyTask } from './apply-task.ts'
import type { ReconcileDeps } from './deps.ts'
import type { DesiredObject } from './desired.ts'
import { updateItem } from './plan.ts'
import { settledAs } from './untouched.ts'
import { type Wanted, wantedOfAnybody } from './wanted.ts'
import { writeRules } from './write-rules.ts'

/** Undefined: not tried, or not as this item asks for, or not with an answer that tells what a write would do. */
export type EarlyTrials = (item: ApplyItem) => Promise<Trial | undefined> | undefined
export interface Ahead extends Omit<Wanted, 'tenant'> {
  readonly trials: EarlyTrials
  /** None of them is under way any more. */
  readonly ended: Promise<unknown>
}

/** Read in less time than a turn takes, and what it changes is what the apply will wait for. */
const shortText = 8 * 1024

/** Null: whoever reads on settles for himself what is wanted. Never rejects. */
export async function tryAhead(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<Ahead | null> {
  const { settings, clean } = deps
  const before = clean.hashesOf(task.stackId)
  const isNews = before.size > 0 && !clean.isSettled(task.stackId, settledAs(task))
  if (!isNews || !settings.dryRun || namespacesOf(settings.policy) !== null) return null
  try {
    // What was asked for already leaves before a long text is read: the client looks at a connection that was idle for one turn first.
    for (let turn = 0; turn < 2 && task.text.length > shortText; turn++) await nextTurn()
    const wanted = await wantedOfAnybody(deps, task, signal)
    return wanted && { ...wanted, ...begin(deps, wanted.desired, before, signal) }
  } catch {
    return null
  }
}

function begin(
  deps: ReconcileDeps,
  desired: readonly DesiredObject[],
  before: ReadonlyMap<string, string>,
  signal: AbortSignal,
): Pick<Ahead, 'trials' | 'ended'> {
  // What stands on a namespace or a definition of the same set is tried when that one is there.
  const isPlain = desired.every(({ object }) => phaseOf(groupKindOf(object)) > 2)
  const changed = isPlain ? desired.filter(({ key, hash }) => before.has(key) && before.get(key) !== hash) : []
  const trials = new Map<KubeObject, { item: ApplyItem; trial: Promise<Trial | undefined> }>()
  for (const each of changed) {
    const item = updateItem(each)
    trials.set(each.object, { item, trial: tryOnce(deps, item, signal) })
  }
  const found: EarlyTrials = (item) => {
    const tried = trials.get(item.object)
    const isSame = tried && item.force === tried.item.force && item.expect === tried.item.expect && item.replace === tried.item.replace
    return isSame ? tried.trial : undefined
  }
  return { trials: found, ended: Promise.all([...trials.values()].map(({ trial }) => trial)) }
}

/** What fails is tried again in its place, with all the patience that a trial has there. */
async function tryOnce(deps: ReconcileDeps, item: ApplyItem, signal: AbortSignal): Promise<Trial | undefined> {
  try {
    const trial = await tryObject(deps, item, { ...writeRules(deps.settings, signal), retry: NO_RETRY })
    return 'seen' in trial && !trial.seen.created ? trial : undefined
  } catch {
    return undefined
  }
}
