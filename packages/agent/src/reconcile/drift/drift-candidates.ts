// Members that may have drifted, by stack, and the time of their next check: at once, but not before the pause after a healing or the
// drift backoff of a field.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { AgentMetrics } from '../../metrics.ts'
import type { Outcome } from '../outcome.ts'
import { DriftBackoff } from './drift-backoff.ts'

/** Pause between two healings of one stack, so that a conflict with another controller does not loop. A later edit is still healed
 *  within a second. */
const healPauseMs = 500

interface CandidateState {
  readonly keys: Set<string>
  healedAtMs: number
}

export class DriftCandidates {
  readonly #deps: { readonly clock: Clock; readonly log: Log; readonly metrics: AgentMetrics }
  readonly #backoff: DriftBackoff
  readonly #byStack = new Map<StackId, CandidateState>()

  /** `conflictWindowMs`: window in which repeated healings of one field count as a conflict. */
  constructor(deps: { readonly clock: Clock; readonly log: Log; readonly metrics: AgentMetrics }, conflictWindowMs: () => number) {
    this.#deps = deps
    this.#backoff = new DriftBackoff(conflictWindowMs)
  }

  add(stackId: StackId, keys: Iterable<string>): void {
    const state = this.#getState(stackId)
    for (const key of keys) state.keys.add(key)
  }

  /** Takes the candidates that may be checked now; `recordOutcome` adds them again after a failed attempt. */
  take(stackId: StackId): ReadonlySet<string> {
    const keys = this.#byStack.get(stackId)?.keys ?? new Set<string>()
    const backedOff = this.listBackedOff(stackId)
    const candidates = new Set([...keys].filter((key) => !backedOff.has(key)))
    for (const key of candidates) keys.delete(key)
    return candidates
  }

  has(stackId: StackId): boolean {
    return (this.#byStack.get(stackId)?.keys.size ?? 0) > 0
  }

  /** Time until the next check of the stack's candidates. */
  pauseMs(stackId: StackId): number {
    const { keys, healedAtMs } = this.#getState(stackId)
    const nowMs = this.#deps.clock.monotonicMs()
    const rests = [...keys].map((key) => this.#backoff.restMs(stackId, key, nowMs))
    return Math.max(0, healedAtMs + healPauseMs - nowMs, Math.min(...rests))
  }

  /** Members in drift backoff. */
  listBackedOff(stackId: StackId): ReadonlySet<string> {
    return this.#backoff.listBackedOff(stackId, this.#deps.clock.monotonicMs())
  }

  /** Describes the conflict for operators; null: none. */
  describeConflict(stackId: StackId): string | null {
    return this.#backoff.describe(stackId, this.#deps.clock.monotonicMs())
  }

  /** Records the result of an attempt; null: it was aborted. */
  recordOutcome(stackId: StackId, outcome: Outcome | null, candidates: ReadonlySet<string>): void {
    const { clock, log, metrics } = this.#deps
    const drift = outcome?.phase === 'applied' ? outcome.drift : null
    if (candidates.size === 0 && drift === null) return
    if (outcome?.phase !== 'applied') this.add(stackId, candidates)
    if (outcome === null) return
    this.#getState(stackId).healedAtMs = clock.monotonicMs()
    metrics.drifts.inc({ result: toResult(outcome) })
    if (!drift?.isHealed) return
    this.#backoff.healed(stackId, drift.changes, clock.monotonicMs())
    log.info('drift healed', { stack_id: stackId, suspects: candidates.size, fields: drift.changes.length })
  }

  forget(stackId: StackId): void {
    this.#byStack.delete(stackId)
    this.#backoff.forget(stackId)
  }

  #getState(stackId: StackId): CandidateState {
    const state = this.#byStack.get(stackId)
    if (state) return state
    const newState: CandidateState = { keys: new Set(), healedAtMs: Number.NEGATIVE_INFINITY }
    this.#byStack.set(stackId, newState)
    return newState
  }
}

function toResult(outcome: Outcome): string {
  if (outcome.phase !== 'applied') return 'failed'
  if (outcome.drift === null) return 'none'
  return outcome.drift.isHealed ? 'healed' : 'reported'
}
