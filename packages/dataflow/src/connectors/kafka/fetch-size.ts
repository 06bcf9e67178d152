// Limits the size of a fetch. Pure. Kafka limits stored bytes, and compressed records can be a thousand times larger, so a fetch asks for
// less when responses exceed the limit.
import type { Message } from '../connector.ts'

/** Initial size, before the first response. */
const firstShare = 1 / 8

export class FetchSize {
  readonly #bytesMax: number
  #share = firstShare

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Size for one of several concurrent requests. */
  bytesToAsk(requests: number): number {
    return Math.max(1, Math.floor(this.#allowed(requests) * this.#share))
  }

  /** `bytes`: size of the messages that a request returned. */
  received(bytes: number, requests: number): void {
    const bytesAllowed = this.#allowed(requests)
    if (bytes > bytesAllowed) this.#share *= bytesAllowed / bytes
    // A response far below the requested size says nothing about larger ones.
    else if (bytes * 2 >= this.bytesToAsk(requests) && bytes * 2 <= bytesAllowed) this.#share = Math.min(1, this.#share * 2)
  }

  #allowed(requests: number): number {
    return this.#bytesMax / Math.max(1, requests)
  }
}

export const byteSum = (messages: readonly Message[]): number => messages.reduce((sum, { bytes }) => sum + bytes, 0)

/** Splits in order; each part is within the limit except for its last message. */
export function* splitByBytes(messages: readonly Message[], bytesMax: number): Generator<readonly Message[]> {
  let [start, bytes] = [0, 0]
  for (const [index, message] of messages.entries()) {
    bytes += message.bytes
    if (bytes < bytesMax) continue
    yield messages.slice(start, index + 1)
    ;[start, bytes] = [index + 1, 0]
  }
  if (start < messages.length) yield messages.slice(start)
}
