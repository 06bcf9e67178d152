// May a list remove that much? A list that lost half of what it should name looks like any other, so a removal of many stacks,
// or of all, waits for a person. Pure. A live `del` and a deletion marker do not come here.

export interface RemovalEvidence {
  /** Stacks that stand in the cluster under our name. */
  readonly owned: ReadonlySet<string>
  /** What the complete list named as to be removed. */
  readonly dels: ReadonlySet<string>
  /** What the list did not mention at all. */
  readonly silent: ReadonlySet<string>
  /** Stood here when the broker's history became another one that does not know them: its silence about them proves nothing. */
  readonly orphans?: ReadonlySet<string>
  /** So many removals were approved by a person; null: nobody was asked. */
  readonly allowRemovals: number | null
}
export interface RemovalVerdict {
  readonly remove: readonly string[]
  /** Runs on until somebody approves, or a later list says otherwise. */
  readonly hold: readonly string[]
}

const countMax = 5
const share = 5

export function guardRemovals(evidence: RemovalEvidence): RemovalVerdict {
  const { owned, dels, silent } = evidence
  const all = [...new Set([...dels, ...silent])]
  // What does not stand in the cluster costs nothing to remove and proves nothing.
  const costly = all.filter((stackId) => owned.has(stackId))
  const held = passes(evidence, costly) ? costly.filter((stackId) => isOrphan(evidence, stackId, costly)) : costly
  return { remove: all.filter((stackId) => !held.includes(stackId)), hold: held }
}

const isOrphan = ({ orphans, dels, allowRemovals }: RemovalEvidence, stackId: string, costly: readonly string[]): boolean =>
  orphans?.has(stackId) === true && !dels.has(stackId) && costly.length > (allowRemovals ?? 0)

function passes({ owned, dels, allowRemovals }: RemovalEvidence, costly: readonly string[]): boolean {
  if (costly.length === 0 || costly.length <= (allowRemovals ?? 0)) return true
  const isAllBySilence = costly.length === owned.size && costly.some((stackId) => !dels.has(stackId))
  return !isAllBySilence && costly.length <= Math.max(countMax, Math.floor(owned.size / share))
}
