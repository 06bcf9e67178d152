// Applies items and checks the ownership of existing objects. Ownership is read only after the API server reported a conflict, because
// conflicts are rare.

import {
  type ApplyDeps,
  type ApplyItem,
  type ApplyOutcome,
  type ApplyReport,
  type ApplySetOptions,
  applyObjects,
  buildApplyOutcome,
  type KubeObject,
  READ_RETRY,
  refOf,
  retrying,
} from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { judgeOwnership, type OwnershipRules } from '../plan/ownership.ts'
import { type Problem, toProblem } from '../problem.ts'

/** `existing` is applied instead if the object already exists and may be taken over. */
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
  // Without a dry run the first write would hit the foreign object, so ownership is checked before.
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
  return { report: first, problems: listProblems(first) }
}

/** Reads the owners of contested objects and applies the items if all of them may be taken over. */
async function applySettled(
  deps: ApplyDeps,
  items: readonly OwnedItem[],
  contested: readonly number[],
  rules: OwnershipRules,
  options: ApplySetOptions,
  firstReport?: ApplyReport,
): Promise<OwnedReport> {
  const owners = await mapBounded(
    contested,
    options.concurrency ?? 8,
    (index) => settle(deps, items[index] as OwnedItem, rules, options.signal),
    options.signal,
  )
  const foreign = owners.flatMap((each) => ('problem' in each ? [each.problem] : []))
  if (foreign.length > 0) return { report: firstReport ?? toSkippedReport(items), problems: foreign }
  const settledItems = new Map(contested.map((index, at) => [index, owners[at]]))
  const again = items.map((item, index) => {
    const owner = settledItems.get(index)
    return owner && 'item' in owner ? owner.item : item
  })
  const report = await applyObjects(deps, again, options)
  return { report, problems: listProblems(report) }
}

const toSkippedReport = (items: readonly ApplyItem[]): ApplyReport => ({
  outcomes: items.map((item) => buildApplyOutcome(item, 'skipped')),
  ok: false,
  refused: true,
})

/** Without force, a foreign object shows as foreign or as a field conflict. */
const isContested = ({ failure }: ApplyOutcome, item: ApplyItem | undefined): boolean =>
  item?.expect === 'absent' && (failure?.code === 'foreign_object' || failure?.code === 'field_conflict')

async function settle(
  deps: ApplyDeps,
  item: OwnedItem,
  rules: OwnershipRules,
  signal: AbortSignal | undefined,
): Promise<{ item: ApplyItem } | { problem: Problem }> {
  const find = () => deps.kube.find(refOf(item.object), { metadataOnly: true, signal })
  const live = await retrying(deps, READ_RETRY, find, signal)
  if (!live) return { item }
  const ownership = judgeOwnership(live, item.object, rules)
  return ownership.is === 'foreign' ? { problem: ownership.problem } : { item: { object: item.existing ?? item.object, force: true } }
}

const listProblems = ({ outcomes }: ApplyReport): Problem[] => outcomes.flatMap(toProblems)
const toProblems = ({ failure, ref }: ApplyOutcome): Problem[] => (failure ? [toProblem(failure, ref)] : [])
