// Applies items and settles whose the objects are that stand in the way. Normally nothing does, so ownership is looked up only
// after the API server has shown that an object under our name is not of our making.
import { type ApplyReport, type ApplySetOptions, applyObjects } from '@brokkr/kube/apply.ts'
import { type ApplyDeps, type ApplyItem, type ApplyOutcome, outcomeOf } from '@brokkr/kube/apply-object.ts'
import { type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { judgeOwnership, type OwnershipRules } from './ownership.ts'
import { type Problem, problemOf } from './problem.ts'

/** `existing` is what is applied instead when the object turns out to stand already and may be ours. */
export type OwnedItem = ApplyItem & { readonly existing?: KubeObject }

export interface OwnedReport {
  readonly report: ApplyReport
  readonly problems: readonly Problem[]
}

export async function applyOwned(
  deps: ApplyDeps,
  items: readonly OwnedItem[],
  rules: OwnershipRules,
  options: ApplySetOptions,
): Promise<OwnedReport> {
  // Without a trial the first thing to meet a foreign object would be the write, so it is looked for beforehand.
  if (options.dryRun === false)
    return applySettled(
      deps,
      items,
      items.map((_, index) => index).filter((index) => items[index]?.expect === 'absent'),
      rules,
      options,
    )
  const first = await applyObjects(deps, items, options)
  const contested = first.outcomes.map((outcome, index) => (isContested(outcome, items[index]) ? index : -1)).filter((index) => index >= 0)
  const others = first.outcomes.filter((outcome, index) => outcome.action === 'failed' && !contested.includes(index))
  if (contested.length > 0 && others.length === 0)
    return applySettled(deps, items, contested, rules, { ...options, tried: undefined }, first)
  return { report: first, problems: problemsOf(first) }
}

/** Looks up whose the contested objects are; applies if all of them may be ours. */
async function applySettled(
  deps: ApplyDeps,
  items: readonly OwnedItem[],
  contested: readonly number[],
  rules: OwnershipRules,
  options: ApplySetOptions,
  tried?: ApplyReport,
): Promise<OwnedReport> {
  const found = await mapBounded(
    contested,
    options.concurrency ?? 8,
    (index) => settle(deps, items[index] as OwnedItem, rules, options.signal),
    options.signal,
  )
  const foreign = found.flatMap((each) => ('problem' in each ? [each.problem] : []))
  if (foreign.length > 0) return { report: tried ?? skipped(items), problems: foreign }
  const settled = new Map(contested.map((index, at) => [index, found[at]]))
  const again = items.map((item, index) => {
    const owner = settled.get(index)
    return owner && 'item' in owner ? owner.item : item
  })
  const report = await applyObjects(deps, again, options)
  return { report, problems: problemsOf(report) }
}

const skipped = (items: readonly ApplyItem[]): ApplyReport => ({
  outcomes: items.map((item) => outcomeOf(item, 'skipped')),
  ok: false,
  refused: true,
})

/** Without force a foreign object shows either as foreign or as a conflict over fields. */
const isContested = ({ failure }: ApplyOutcome, item: ApplyItem | undefined): boolean =>
  item?.expect === 'absent' && (failure?.code === 'foreign_object' || failure?.code === 'field_conflict')

async function settle(
  deps: ApplyDeps,
  item: OwnedItem,
  rules: OwnershipRules,
  signal: AbortSignal | undefined,
): Promise<{ item: ApplyItem } | { problem: Problem }> {
  const live = await deps.kube.find(refOf(item.object), { metadataOnly: true, signal })
  if (!live) return { item }
  const ownership = judgeOwnership(live, item.object, rules)
  return ownership.is === 'foreign' ? { problem: ownership.problem } : { item: { object: item.existing ?? item.object, force: true } }
}

const problemsOf = ({ outcomes }: ApplyReport): Problem[] => outcomes.flatMap(problemsOfOne)
const problemsOfOne = ({ failure, ref }: ApplyOutcome): Problem[] => (failure ? [problemOf(failure, ref)] : [])
