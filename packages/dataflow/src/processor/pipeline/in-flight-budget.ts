// Limits messages in flight by bytes and by positions. The pipeline reserves when it reads and releases with the outcome; a source
// only checks for room before a read, so one read may exceed the limit.
import type { Budget } from '../../connectors/connector.ts'
import { Waiter } from './waiter.ts'

/** Memory of a message or derived record besides its payload. */
export const overheadBytes = 256
const defaultMaxPositions = 1_000_000

export class InFlightBudget implements Budget {
  readonly limitBytes: number
  readonly #maxPositions: number
  #bytes = 0
  #positions = 0
  readonly #waiter = new Waiter()

  constructor(limitBytes: number, maxPositions = defaultMaxPositions) {
    this.limitBytes = limitBytes
    this.#maxPositions = maxPositions
  }

  get bytes(): number {
    return this.#bytes
  }

  get positions(): number {
    return this.#positions
  }

  get isSpent(): boolean {
    return this.#bytes >= this.limitBytes || this.#positions >= this.#maxPositions
  }

  reserve(bytes: number): void {
    this.#bytes += bytes
  }

  release(bytes: number): void {
    this.#bytes -= bytes
    if (this.#waiter.hasWaiters && !this.isSpent) this.#waiter.wake()
  }

  /** A position counts until it is part of the committed prefix, also after its payload was released. */
  addPositions(count: number): void {
    this.#positions += count
    if (count < 0 && this.#waiter.hasWaiters && !this.isSpent) this.#waiter.wake()
  }

  async room(signal?: AbortSignal): Promise<void> {
    while (this.isSpent) {
      signal?.throwIfAborted()
      await this.#waiter.wait({ signal })
    }
    signal?.throwIfAborted()
  }
}
