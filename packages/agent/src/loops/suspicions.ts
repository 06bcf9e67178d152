// Members that another hand may have changed, by stack, and when they may be looked at: at once, but not faster than the pause
// between two healings, nor while a field that is fought over rests.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { AgentMetrics } from '../metrics.ts'
import { DriftFights } from '../reconcile/drift-fights.ts'
import type { Outcome } from '../reconcile/outcome.ts'

/** Between two healings of one stack: a fight with another controller must not become a loop without pause. Short enough that what is
 *  edited right after a healing still stands again within a second. */
const healPauseMs = 500

interface Suspicion {
  readonly keys: Set<string>
  healedAtMs: number
}

export class Suspicions {
  readonly #deps: { readonly clock: Clock; readonly log: Log; readonly metrics: AgentMetrics }
  readonly #fights: DriftFights
  readonly #byStack = new Map<StackId, Suspicion>()

  /** `fightMs`: how often within so long the same field must be healed to count as a fight. */
  constructor(deps: { readonly clock: Clock; readonly log: Log; readonly metrics: AgentMetrics }, fightMs: () => number) {
    this.#deps = deps
    this.#fights = new DriftFights(fightMs)
  }

  add(stackId: StackId, keys: Iterable<string>): void {
    const suspicion = this.#of(stackId)
    for (const key of keys) suspicion.keys.add(key)
  }

  /** Those that may be looked at now; they are no longer suspected unless `looked` gives them back. */
  take(stackId: StackId): ReadonlySet<string> {
    const keys = this.#byStack.get(stackId)?.keys ?? new Set<string>()
    const resting = this.resting(stackId)
    const taken = new Set([...keys].filter((key) => !resting.has(key)))
    for (const key of taken) keys.delete(key)
    return taken
  }

  has(stackId: StackId): boolean {
    return (this.#byStack.get(stackId)?.keys.size ?? 0) > 0
  }

  /** How long the next look at the stack's suspects has to wait. */
  pauseMs(stackId: StackId): number {
    const { keys, healedAtMs } = this.#of(stackId)
    const nowMs = this.#deps.clock.monotonicMs()
    const rests = [...keys].map((key) => this.#fights.restMs(stackId, key, nowMs))
    return Math.max(0, healedAtMs + healPauseMs - nowMs, Math.min(...rests))
  }

  /** Members that are left alone while a fight over them rests. */
  resting(stackId: StackId): ReadonlySet<string> {
    return this.#fights.resting(stackId, this.#deps.clock.monotonicMs())
  }

  /** What is fought over, for whoever must end it; null: nothing. */
  fight(stackId: StackId): string | null {
    return this.#fights.describe(stackId, this.#deps.clock.monotonicMs())
  }

  /** What came of the look; null: it was cut short. */
  looked(stackId: StackId, outcome: Outcome | null, suspects: ReadonlySet<string>): void {
    const { clock, log, metrics } = this.#deps
    const drift = outcome?.phase === 'applied' ? outcome.drift : null
    if (suspects.size === 0 && drift === null) return
    if (outcome?.phase !== 'applied') this.add(stackId, suspects)
    if (outcome === null) return
    this.#of(stackId).healedAtMs = clock.monotonicMs()
    metrics.drifts.inc({ result: resultOf(outcome) })
    if (!drift?.isHealed) return
    this.#fights.healed(stackId, drift.changes, clock.monotonicMs())
    log.info('healed', { stack_id: stackId, suspects: suspects.size, fields: drift.changes.length })
  }

  forget(stackId: StackId): void {
    this.#byStack.delete(stackId)
    this.#fights.forget(stackId)
  }

  #of(stackId: StackId): Suspicion {
    const known = this.#byStack.get(stackId)
    if (known) return known
    const fresh: Suspicion = { keys: new Set(), healedAtMs: Number.NEGATIVE_INFINITY }
    this.#byStack.set(stackId, fresh)
    return fresh
  }
}

function resultOf(outcome: Outcome): string {
  if (outcome.phase !== 'applied') return 'failed'
  if (outcome.drift === null) return 'none'
  return outcome.drift.isHealed ? 'healed' : 'reported'
}
