// Limits removals by a snapshot: a truncated snapshot looks like any other, so the removal of many or all stacks needs an approval. Pure.
// Live `del` frames and deletion markers bypass it.

export interface RemovalEvidence {
  /** Stacks of this agent in the cluster. */
  readonly owned: ReadonlySet<string>
  /** Stacks that the snapshot names for removal. */
  readonly removals: ReadonlySet<string>
  /** Stacks that the snapshot does not mention. */
  readonly absent: ReadonlySet<string>
  /** Stacks that existed when a new epoch began and that it does not know: their absence proves nothing. */
  readonly orphans?: ReadonlySet<string>
  /** Approved number of removals; null: none. */
  readonly allowRemovals: number | null
}
export interface RemovalVerdict {
  readonly remove: readonly string[]
  /** Kept until an approval or a later snapshot. */
  readonly hold: readonly string[]
}

const countMax = 5
const share = 5

export function guardRemovals(evidence: RemovalEvidence): RemovalVerdict {
  const { owned, removals, absent } = evidence
  const all = [...new Set([...removals, ...absent])]
  // Stacks without objects in the cluster cost nothing to remove and prove nothing.
  const costly = all.filter((stackId) => owned.has(stackId))
  const heldStacks = passes(evidence, costly) ? costly.filter((stackId) => isOrphan(evidence, stackId, costly)) : costly
  return { remove: all.filter((stackId) => !heldStacks.includes(stackId)), hold: heldStacks }
}

const isOrphan = ({ orphans, removals, allowRemovals }: RemovalEvidence, stackId: string, costly: readonly string[]): boolean =>
  orphans?.has(stackId) === true && !removals.has(stackId) && costly.length > (allowRemovals ?? 0)

function passes({ owned, removals, allowRemovals }: RemovalEvidence, costly: readonly string[]): boolean {
  if (costly.length === 0 || costly.length <= (allowRemovals ?? 0)) return true
  const isAllBySilence = costly.length === owned.size && costly.some((stackId) => !removals.has(stackId))
  return !isAllBySilence && costly.length <= Math.max(countMax, Math.floor(owned.size / share))
}
