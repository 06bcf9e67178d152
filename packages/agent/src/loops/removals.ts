// A complete list came: which stacks does it take away, and may it? Asks the cluster what we own, lets the guard judge, and
// writes the answer into the map. Until then everything runs on.
import type { StackId } from '@brokkr/contract/wire.ts'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Verified } from '../follow/snapshot.ts'
import type { WantedMap } from '../follow/wanted-map.ts'
import type { AgentMetrics } from '../metrics.ts'
import { guardRemovals } from '../reconcile/guard.ts'

/** Which history of the broker was followed last, and which of our stacks it did not know when it began; kept across restarts. */
export interface HistoryRecord {
  readonly orphans: ReadonlySet<string>
  save(change: { epoch?: string; boot?: string; orphans: ReadonlySet<string> }): Promise<void>
}

export interface RemovalDeps {
  readonly map: () => WantedMap
  readonly owned: (signal: AbortSignal) => Promise<ReadonlySet<string>>
  readonly history: HistoryRecord
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onDecided: (stackId: StackId) => void
}

/** The list that was asked for because of an approval comes within seconds, or the broker is away. */
const allowedMs = 60_000

/** The newest list counts; an older one that still waits for the cluster is dropped. */
export class Removals {
  readonly #deps: RemovalDeps
  #judging = new AbortController()
  /** So many removals were approved and no list has been judged since: the one that carried the number may have been dropped for a newer one,
   *  or cut off while the broker already counted it as told. */
  #allowed: { readonly removals: number; readonly untilMs: number } | null = null

  constructor(deps: RemovalDeps) {
    this.#deps = deps
  }

  /** A person has approved so many; the next list that is judged may make use of it, once, and soon: what comes later is another question. */
  allow(removals: number): void {
    const untilMs = this.#deps.clock.monotonicMs() + allowedMs
    this.#allowed = { removals: Math.max(removals, this.#allowed?.removals ?? 0), untilMs }
  }

  take(list: Verified): void {
    this.stop()
    // What was approved of one history says nothing about what another one has forgotten.
    if (list.isNewHistory) this.#allowed = null
    if (list.allowRemovals !== null) this.allow(list.allowRemovals)
    this.#judging = new AbortController()
    const { signal } = this.#judging
    this.#judge(list, signal).catch(
      (error: unknown) => signal.aborted || this.#deps.log.error('removals not judged', { error: toError(error) }),
    )
  }

  stop(): void {
    this.#judging.abort(new Error('a newer list came'))
  }

  async #judge(list: Verified, signal: AbortSignal): Promise<void> {
    const owned = await this.#until('the inventories cannot be listed', () => this.#deps.owned(signal), signal)
    // Written down before anything is decided: a restart in between must not forget it.
    const orphans = await this.#until('our own record cannot be written', () => this.#orphans(list, owned), signal)
    signal.throwIfAborted()
    const { levels } = this.#deps.map()
    const open = [...levels.leaving.values()].filter(({ decision }) => decision !== 'decided').map(({ stackId }) => stackId)
    // What was put since the list was made is wanted, whatever the list says.
    const isOpen = (stackId: string) => !list.mentioned.has(stackId as StackId) && !levels.wanted.has(stackId as StackId)
    const dels = new Set([...list.dels].filter(isOpen))
    const silent = new Set(
      [...owned, ...open].filter((stackId) => isOpen(stackId) && !dels.has(stackId as StackId) && !this.#isDecided(stackId as StackId)),
    )
    const allowRemovals = this.#spend()
    const verdict = guardRemovals({ owned, dels, silent, orphans, allowRemovals })
    if (verdict.hold.length > 0)
      this.#deps.log.warn('removal held by the guard', { held: verdict.hold.length, owned: owned.size, allowed: allowRemovals })
    for (const stackId of verdict.remove) this.#decide(stackId as StackId, 'decided')
    for (const stackId of verdict.hold) this.#decide(stackId as StackId, 'held')
    this.#deps.metrics.pruneHeld.set(verdict.hold.length)
  }

  /** What a new history does not know was not taken away by it: a database restored from a backup has merely forgotten. */
  async #orphans(list: Verified, owned: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const { levels } = this.#deps.map()
    const { history } = this.#deps
    const isUnknown = (stackId: string) =>
      !list.mentioned.has(stackId as StackId) && !list.dels.has(stackId as StackId) && !levels.wanted.has(stackId as StackId)
    const orphans = new Set(
      [...(list.isNewHistory ? owned : history.orphans)].filter((stackId) => owned.has(stackId) && isUnknown(stackId)),
    )
    if (list.isNewHistory)
      this.#deps.log.warn('the broker has another history than before', { epoch: list.epoch, unknown_to_it: orphans.size })
    const { epoch, boot } = list
    await history.save({ orphans, ...(epoch === null ? {} : { epoch }), ...(boot === null ? {} : { boot }) })
    return orphans
  }

  #spend(): number | null {
    const allowed = this.#allowed
    this.#allowed = null
    return allowed !== null && this.#deps.clock.monotonicMs() <= allowed.untilMs ? allowed.removals : null
  }

  #isDecided(stackId: StackId): boolean {
    return this.#deps.map().levels.leaving.get(stackId)?.decision === 'decided'
  }

  #decide(stackId: StackId, decision: 'decided' | 'held'): void {
    const { levels } = this.#deps.map()
    // Owned in the cluster and unknown to the map, as after a restart.
    if (!levels.leaving.has(stackId)) levels.remove(stackId, 0, 'absent', 'undecided')
    if (levels.decide(stackId, decision)) this.#deps.onDecided(stackId)
  }

  async #until<T>(problem: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let failures = 0; ; failures++) {
      try {
        return await work()
      } catch (error) {
        signal.throwIfAborted()
        if (failures === 0) this.#deps.log.warn(`nothing is removed yet: ${problem}`, { why: errorText(error) })
        await this.#deps.clock.sleep(backoffDelayMs({ baseMs: 1_000, maxMs: 60_000, jitter: 'equal' }, failures), signal)
      }
    }
  }
}
