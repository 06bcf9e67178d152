// Chooses the transport: stream, long poll where streams are buffered, else poll. Tries a better transport again after an interval. Pure
// except for the clock.
import type { Clock } from '@brokkr/runtime/clock.ts'

export type TransportKind = 'stream' | 'longpoll' | 'poll'
export type Transport = 'auto' | TransportKind

const rank: Record<TransportKind, number> = { stream: 2, longpoll: 1, poll: 0 }

export class TransportSelector {
  readonly #clock: Clock
  readonly #retryMs: () => number
  readonly #best: TransportKind
  readonly #mayChange: boolean
  #usual: TransportKind
  /** Monotonic time from which the best transport is tried again. */
  #trialFromMs = Number.POSITIVE_INFINITY

  constructor(clock: Clock, transport: Transport, retryMs: () => number) {
    this.#clock = clock
    this.#retryMs = retryMs
    this.#best = transport === 'auto' ? 'stream' : transport
    this.#mayChange = transport === 'auto'
    this.#usual = this.#best
  }

  /** Transport of the next attempt. */
  get next(): TransportKind {
    return this.#isTrialDue ? this.#best : this.#usual
  }

  get usual(): TransportKind {
    return this.#usual
  }

  get untilTrialMs(): number {
    return this.#usual === this.#best ? Number.POSITIVE_INFINITY : Math.max(0, this.#trialFromMs - this.#clock.monotonicMs())
  }

  /** A frame or a list arrived by this transport. */
  worked(kind: TransportKind): void {
    if (rank[kind] >= rank[this.#usual]) this.#setUsual(kind)
  }

  /** The transport does not work. Returns true if another one is used from now on. */
  failed(kind: TransportKind, replacement: TransportKind): boolean {
    if (!this.#mayChange) return false
    // A failed trial changes nothing.
    const isTrial = kind !== this.#usual
    if (isTrial) this.#trialFromMs = this.#clock.monotonicMs() + this.#retryMs()
    else this.#setUsual(replacement)
    return !isTrial
  }

  get #isTrialDue(): boolean {
    return this.#usual !== this.#best && this.#clock.monotonicMs() >= this.#trialFromMs
  }

  #setUsual(kind: TransportKind): void {
    if (kind === this.#usual) return
    this.#usual = kind
    this.#trialFromMs = this.#clock.monotonicMs() + this.#retryMs()
  }
}
