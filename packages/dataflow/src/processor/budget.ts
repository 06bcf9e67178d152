// How much may be read and not yet ended: bytes, and positions. The pipeline takes at reading and gives at the ending; a source only
// asks whether there is room, so one read may pass the bound and no more.
import type { Budget } from './connectors/connector.ts'
import { Waiter } from './waiter.ts'

/** What a message or a derived record costs besides its payload. */
export const overheadBytes = 256
/** Positions kept behind an open message before the source pauses. */
const positionsMaxDefault = 1_000_000

export class OpenBudget implements Budget {
  readonly limitBytes: number
  readonly #positionsMax: number
  #bytes = 0
  #positions = 0
  readonly #waiter = new Waiter()

  constructor(limitBytes: number, positionsMax = positionsMaxDefault) {
    this.limitBytes = limitBytes
    this.#positionsMax = positionsMax
  }

  get bytes(): number {
    return this.#bytes
  }

  get positions(): number {
    return this.#positions
  }

  get isSpent(): boolean {
    return this.#bytes >= this.limitBytes || this.#positions >= this.#positionsMax
  }

  take(bytes: number): void {
    this.#bytes += bytes
  }

  give(bytes: number): void {
    this.#bytes -= bytes
    if (this.#waiter.isWaitedFor && !this.isSpent) this.#waiter.wake()
  }

  /** Positions are held until they are part of the ended prefix, long after their payload was given back. */
  movePositions(by: number): void {
    this.#positions += by
    if (by < 0 && this.#waiter.isWaitedFor && !this.isSpent) this.#waiter.wake()
  }

  async room(signal?: AbortSignal): Promise<void> {
    while (this.isSpent) {
      signal?.throwIfAborted()
      await this.#waiter.wait({ signal })
    }
    signal?.throwIfAborted()
  }
}
