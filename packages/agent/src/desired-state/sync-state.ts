// State of the synchronization with the broker: desired state, epoch and cursor. A snapshot of another epoch replaces everything except
// decided removals.
import type { StackId } from '@brokkr/contract/wire.ts'
import { DesiredState } from './desired-state.ts'

export class SyncState {
  desired = new DesiredState()
  /** Null: unknown, for example after polling. */
  epoch: string | null = null
  /** Boot id of the broker's database server at the start of the last stream; null: unknown. */
  boot: string | null = null
  /** The digest differs from the broker's: the next snapshot replaces the desired state completely, also with lower revs. The epoch
   *  stays known, so that a new one is still detected. */
  hasDigestMismatch = false
  /** The latest stored cursor, also after it was dropped for a snapshot. */
  lastCursor: string | null = null
  #cursor: string | null = null

  /** Null: a snapshot is needed. */
  get cursor(): string | null {
    return this.#cursor
  }

  set cursor(cursor: string | null) {
    this.#cursor = cursor
    if (cursor !== null) this.lastCursor = cursor
  }

  /** Returns the stacks to reconcile. */
  replace(replacement: DesiredState): StackId[] {
    const previous = this.desired
    this.desired = replacement
    for (const [stackId, removal] of previous.removals)
      if (!replacement.stacks.has(stackId) && !replacement.removals.has(stackId)) replacement.removals.set(stackId, removal)
    for (const [stackId, stack] of previous.stacks) {
      if (replacement.stacks.has(stackId) || replacement.removals.has(stackId)) continue
      replacement.removals.set(stackId, { stackId, rev: stack.rev, reason: 'absent', decision: 'undecided', last: stack })
    }
    return [...replacement.stacks.values()].filter((stack) => hasChanged(previous, stack.stackId, stack)).map(({ stackId }) => stackId)
  }
}

/** True if the state belongs to another epoch. The broker may not have noticed a restored backup: if the request contained no cursor,
 *  another boot id can mean another epoch. */
export function isNewEpoch(
  state: Pick<SyncState, 'epoch' | 'boot'>,
  now: { readonly epoch: string; readonly boot: string | null },
  requestHadCursor: boolean,
): boolean {
  if (state.epoch !== null && state.epoch !== now.epoch) return true
  return !requestHadCursor && state.boot !== null && now.boot !== null && state.boot !== now.boot
}

function hasChanged(previous: DesiredState, stackId: StackId, now: { rev: number; object: { id: string } | null; drift: string }): boolean {
  const before = previous.stacks.get(stackId)
  return !before || before.rev !== now.rev || before.object?.id !== now.object?.id || before.drift !== now.drift
}
