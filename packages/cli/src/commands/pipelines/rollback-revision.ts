// Which revision `brokkr pipeline rollback` brings back into an environment. Pure.
import type { Promotion } from './find.ts'

type Entry = Pick<Promotion, 'spec' | 'status'>

export interface RollbackInput {
  /** Revisions that the targets run now; empty: they are not observed. */
  readonly running: readonly string[]
  /** Promotions into the environment, in any order and phase. */
  readonly promotions: readonly Entry[]
}

/**
 * The newest revision that succeeded there and is not the current one. A revision that a later rollback left is passed over: a second
 * rollback goes further back. Without such a revision: what ran before the oldest promotion. Null: there is none.
 */
export function chooseRollbackRevision({ running, promotions }: RollbackInput): string | null {
  const history = promotions.filter(hasActed).toSorted((a, b) => b.spec.run - a.spec.run || b.spec.series - a.spec.series)
  const current = currentRevisions(running, history[0])
  const left = new Set<string>()
  const isEarlier = (revision: string) => revision !== '' && !current.includes(revision) && !left.has(revision)
  for (const { spec, status } of history) {
    if (status.phase === 'Succeeded' && isEarlier(spec.revision)) return spec.revision
    if (spec.cause.kind === 'rollback') for (const revision of listReplaced(spec)) left.add(revision)
  }
  const oldest = history.at(-1)
  return oldest === undefined ? null : (listReplaced(oldest.spec).find(isEarlier) ?? null)
}

/** While a rollout is under way, some targets still run the revision to go back to: the current one is that of the newest promotion. */
function currentRevisions(running: readonly string[], newest: Entry | undefined): readonly string[] {
  if (newest === undefined) return running
  const isUnderWay = running.length > 1 && running.includes(newest.spec.revision)
  return running.length === 0 || isUnderWay ? [newest.spec.revision] : running
}

const listReplaced = ({ revision, previousRevisions = [] }: Entry['spec']): string[] =>
  previousRevisions.filter((each) => each !== revision)

/** A promotion that was refused, withdrawn, or failed before its effect changed no target. */
function hasActed({ status: { phase, conditions = [] } }: Entry): boolean {
  if (phase === 'Abandoned' || phase === 'Aborted') return false
  return phase === 'Succeeded' || conditions.some(({ type, status }) => type === 'Applied' && status === 'True')
}
