// Decides which stacks a verified snapshot removes: reads the owned stacks, asks the prune guard and records the decision. Until then all
// stacks keep running.
import type { StackId } from '@brokkr/contract/wire.ts'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { VerifiedSnapshot } from '../../desired-state/snapshot.ts'
import type { SyncState } from '../../desired-state/sync-state.ts'
import type { AgentMetrics } from '../../metrics.ts'
import { guardRemovals } from './removal-guard.ts'

/** The last epoch and the stacks that it did not know when it began; stored across restarts. */
export interface EpochRecord {
  readonly orphans: ReadonlySet<string>
  save(change: { epoch?: string; boot?: string; orphans: ReadonlySet<string> }): Promise<void>
}

export interface RemovalDeps {
  readonly state: SyncState
  readonly owned: (signal: AbortSignal) => Promise<ReadonlySet<string>>
  readonly epochRecord: EpochRecord
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onDecided: (stackId: StackId) => void
}

/** A snapshot requested after an approval arrives within seconds, or the broker is unreachable. */
const allowedMs = 60_000

/** The latest snapshot counts; an older one that still waits for the cluster is dropped. */
export class SnapshotRemovals {
  readonly #deps: RemovalDeps
  #deciding = new AbortController()
  /** Approved removals that no snapshot has used yet: the snapshot that carried the number may have been replaced or aborted. */
  #allowance: { readonly removals: number; readonly untilMs: number } | null = null

  constructor(deps: RemovalDeps) {
    this.#deps = deps
  }

  /** The next snapshot may use the approval once, within the time limit. */
  allow(removals: number): void {
    const untilMs = this.#deps.clock.monotonicMs() + allowedMs
    this.#allowance = { removals: Math.max(removals, this.#allowance?.removals ?? 0), untilMs }
  }

  take(snapshot: VerifiedSnapshot): void {
    this.stop()
    // An approval in one epoch does not apply to another.
    if (snapshot.isNewEpoch) this.#allowance = null
    if (snapshot.allowRemovals !== null) this.allow(snapshot.allowRemovals)
    this.#deciding = new AbortController()
    const { signal } = this.#deciding
    this.#decideRemovals(snapshot, signal).catch(
      (error: unknown) => signal.aborted || this.#deps.log.error('removal decision failed', { error: toError(error) }),
    )
  }

  stop(): void {
    this.#deciding.abort(new Error('a newer snapshot arrived'))
  }

  async #decideRemovals(snapshot: VerifiedSnapshot, signal: AbortSignal): Promise<void> {
    const owned = await this.#retryUntilDone('the inventories cannot be listed', () => this.#deps.owned(signal), signal)
    // Stored before the decision, so that a restart in between keeps it.
    const orphans = await this.#retryUntilDone('our own record cannot be written', () => this.#orphans(snapshot, owned), signal)
    signal.throwIfAborted()
    const { desired } = this.#deps.state
    const undecided = [...desired.removals.values()].filter(({ decision }) => decision !== 'decided').map(({ stackId }) => stackId)
    // Stacks that were put after the snapshot are desired.
    const isUnlisted = (stackId: string) => !snapshot.listed.has(stackId as StackId) && !desired.stacks.has(stackId as StackId)
    const removals = new Set([...snapshot.removals].filter(isUnlisted))
    const absent = new Set(
      [...owned, ...undecided].filter(
        (stackId) => isUnlisted(stackId) && !removals.has(stackId as StackId) && !this.#isDecided(stackId as StackId),
      ),
    )
    const allowRemovals = this.#takeAllowance()
    const verdict = guardRemovals({ owned, removals, absent, orphans, allowRemovals })
    if (verdict.hold.length > 0)
      this.#deps.log.warn('removal held by the prune guard', { held: verdict.hold.length, owned: owned.size, allowed: allowRemovals })
    for (const stackId of verdict.remove) this.#decide(stackId as StackId, 'decided')
    for (const stackId of verdict.hold) this.#decide(stackId as StackId, 'held')
    this.#deps.metrics.pruneHeld.set(verdict.hold.length)
  }

  /** A new epoch did not remove the stacks it does not know: a restored backup has lost them. */
  async #orphans(snapshot: VerifiedSnapshot, owned: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const { desired } = this.#deps.state
    const { epochRecord } = this.#deps
    const isUnknown = (stackId: string) =>
      !snapshot.listed.has(stackId as StackId) && !snapshot.removals.has(stackId as StackId) && !desired.stacks.has(stackId as StackId)
    const orphans = new Set(
      [...(snapshot.isNewEpoch ? owned : epochRecord.orphans)].filter((stackId) => owned.has(stackId) && isUnknown(stackId)),
    )
    if (snapshot.isNewEpoch) this.#deps.log.warn('new broker epoch', { epoch: snapshot.epoch, unknown_to_it: orphans.size })
    const { epoch, boot } = snapshot
    await epochRecord.save({ orphans, ...(epoch === null ? {} : { epoch }), ...(boot === null ? {} : { boot }) })
    return orphans
  }

  #takeAllowance(): number | null {
    const allowance = this.#allowance
    this.#allowance = null
    return allowance !== null && this.#deps.clock.monotonicMs() <= allowance.untilMs ? allowance.removals : null
  }

  #isDecided(stackId: StackId): boolean {
    return this.#deps.state.desired.removals.get(stackId)?.decision === 'decided'
  }

  #decide(stackId: StackId, decision: 'decided' | 'held'): void {
    const { desired } = this.#deps.state
    // In the cluster but not in the state, for example after a restart.
    if (!desired.removals.has(stackId)) desired.remove(stackId, 0, 'absent', 'undecided')
    if (desired.decide(stackId, decision)) this.#deps.onDecided(stackId)
  }

  async #retryUntilDone<T>(problem: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let failures = 0; ; failures++) {
      try {
        return await work()
      } catch (error) {
        signal.throwIfAborted()
        if (failures === 0) this.#deps.log.warn('removals delayed', { problem, why: errorText(error) })
        await this.#deps.clock.sleep(backoffDelayMs({ baseMs: 1_000, maxMs: 60_000, jitter: 'equal' }, failures), signal)
      }
    }
  }
}
