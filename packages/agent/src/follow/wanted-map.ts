// The one map of an agent: levels, the history they belong to, and the cursor that covers them. A complete list of another
// history takes the place of everything; removals that were decided before go on.
import type { StackId } from '@brokkr/contract/wire.ts'
import { Levels } from './levels.ts'

export class WantedMap {
  levels = new Levels()
  /** Null: unknown, as after polling. */
  epoch: string | null = null
  /** Of the broker's database server, as the last stream began; null: unknown. */
  boot: string | null = null
  /** Something in it is not what the broker sent: the next complete list takes its place whole, lower revs included. Whose history it is
   *  of stays known: a new one must not pass for the old because of it. */
  isDoubted = false
  /** The newest cursor that was kept, also after it was given up for a complete list. */
  seen: string | null = null
  #cursor: string | null = null

  /** Null: only a complete list will do. */
  get cursor(): string | null {
    return this.#cursor
  }

  set cursor(cursor: string | null) {
    this.#cursor = cursor
    if (cursor !== null) this.seen = cursor
  }

  /** Returns the stacks at which somebody must look. */
  replace(fresh: Levels): StackId[] {
    const old = this.levels
    this.levels = fresh
    for (const [stackId, leaving] of old.leaving)
      if (!fresh.wanted.has(stackId) && !fresh.leaving.has(stackId)) fresh.leaving.set(stackId, leaving)
    for (const [stackId, stack] of old.wanted) {
      if (fresh.wanted.has(stackId) || fresh.leaving.has(stackId)) continue
      fresh.leaving.set(stackId, { stackId, rev: stack.rev, reason: 'absent', decision: 'undecided', last: stack })
    }
    return [...fresh.wanted.values()].filter((stack) => isNews(old, stack.stackId, stack)).map(({ stackId }) => stackId)
  }
}

/** Whether what the map holds came from another history, as far as can be told. A backup may have been put back that the broker has not
 *  noticed: where it was shown no cursor, another boot of its database server may be another history. */
export function isOtherHistory(
  map: Pick<WantedMap, 'epoch' | 'boot'>,
  now: { readonly epoch: string; readonly boot: string | null },
  hasShown: boolean,
): boolean {
  if (map.epoch !== null && map.epoch !== now.epoch) return true
  return !hasShown && map.boot !== null && now.boot !== null && map.boot !== now.boot
}

function isNews(old: Levels, stackId: StackId, now: { rev: number; object: { id: string } | null; drift: string }): boolean {
  const before = old.wanted.get(stackId)
  return !before || before.rev !== now.rev || before.object?.id !== now.object?.id || before.drift !== now.drift
}
