// Sends the dry runs of changed objects of a small stack while the parent and the members are still being read. A result is used only if
// the plan contains exactly this write.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ApplyItem, type DryRunResult, dryRunObject, getPhase, groupKindOf, type KubeObject, NO_RETRY } from '@brokkr/kube'
import { listAllowedNamespaces } from '../../policy/policy.ts'
import type { ReconcileDeps } from '../deps.ts'
import { type BuiltDesired, buildDesiredWithoutGenerator } from '../plan/build-desired.ts'
import type { DesiredObject } from '../plan/desired.ts'
import { toUpdateItem } from '../plan/plan.ts'
import type { ApplyTask } from './apply-task.ts'
import { toVersionKey } from './unchanged-check.ts'
import { writeRules } from './write-rules.ts'

/** Undefined: no dry run was sent for this item, or its result does not predict the write. */
export type PrefetchedDryRuns = (item: ApplyItem) => Promise<DryRunResult | undefined> | undefined
export interface Prefetch extends Omit<BuiltDesired, 'generator'> {
  readonly dryRuns: PrefetchedDryRuns
  /** Resolves when no dry run is in flight. */
  readonly ended: Promise<unknown>
}

/** Text up to this length is parsed faster than one event-loop turn. */
const shortText = 8 * 1024

/** Never rejects. Null: the caller builds the desired objects itself. */
export async function prefetchDryRuns(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<Prefetch | null> {
  const { settings, verifiedVersions } = deps
  const before = verifiedVersions.hashesOf(task.stackId)
  const isNews = before.size > 0 && !verifiedVersions.isApplied(task.stackId, toVersionKey(task))
  if (!isNews || !settings.dryRun || listAllowedNamespaces(settings.policy) !== null) return null
  try {
    // Lets the requests that were started leave before a long text blocks the event loop.
    for (let turn = 0; turn < 2 && task.text.length > shortText; turn++) await nextTurn()
    const built = await buildDesiredWithoutGenerator(deps, task, signal)
    return built && { ...built, ...startDryRuns(deps, built.desired, before, signal) }
  } catch {
    return null
  }
}

function startDryRuns(
  deps: ReconcileDeps,
  desired: readonly DesiredObject[],
  before: ReadonlyMap<string, string>,
  signal: AbortSignal,
): Pick<Prefetch, 'dryRuns' | 'ended'> {
  // Objects that depend on a namespace or a definition of the same set cannot be tried yet.
  const isPlain = desired.every(({ object }) => getPhase(groupKindOf(object)) > 2)
  const changed = isPlain ? desired.filter(({ key, hash }) => before.has(key) && before.get(key) !== hash) : []
  const trials = new Map<KubeObject, { item: ApplyItem; trial: Promise<DryRunResult | undefined> }>()
  for (const each of changed) {
    const item = toUpdateItem(each)
    trials.set(each.object, { item, trial: dryRunOnce(deps, item, signal) })
  }
  const findDryRun: PrefetchedDryRuns = (item) => {
    const prefetched = trials.get(item.object)
    const isSame =
      prefetched &&
      item.force === prefetched.item.force &&
      item.expect === prefetched.item.expect &&
      item.replace === prefetched.item.replace
    return isSame ? prefetched.trial : undefined
  }
  return { dryRuns: findDryRun, ended: Promise.all([...trials.values()].map(({ trial }) => trial)) }
}

/** The regular dry run repeats a failed one with retries. */
async function dryRunOnce(deps: ReconcileDeps, item: ApplyItem, signal: AbortSignal): Promise<DryRunResult | undefined> {
  try {
    const trial = await dryRunObject(deps, item, { ...writeRules(deps.settings, signal), retry: NO_RETRY })
    return 'state' in trial && !trial.state.created ? trial : undefined
  } catch {
    return undefined
  }
}
