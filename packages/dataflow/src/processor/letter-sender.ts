// Sends dead letters and tells when each was acknowledged. The errors sink tries for ever; a letter that it finds too large goes
// without its payload.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Failure, type LetterMaker, type LetterPlace, withoutPayload } from './dead-letter.ts'
import type { Lane } from './lane.ts'
import type { Message } from './message.ts'
import type { Item, OpenMessage } from './open-message.ts'

export class LetterSender {
  readonly #deps: { readonly clock: Clock; readonly maker: LetterMaker; lane(): Lane }
  readonly #waiting = new Map<Item, () => void>()
  readonly #shrunk = new WeakSet<Item>()

  constructor(deps: { readonly clock: Clock; readonly maker: LetterMaker; lane(): Lane }) {
    this.#deps = deps
  }

  /** Resolves when the letter is acknowledged, or its partition was given back. */
  send(of: OpenMessage, payload: Message, failure: Failure, place: LetterPlace): Promise<void> {
    const record = this.#deps.maker.make(payload, failure, place, this.#deps.clock.now())
    const item: Item = { record, from: of, index: place.recordIndex, bytes: payload.bytes, isLast: true }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.set(item, resolve)
    const lane = this.#deps.lane()
    lane.push(item, this.#deps.clock.monotonicMs())
    lane.kick()
    return promise
  }

  /** True when another try without the payload is worth it. */
  shrink(item: Item): boolean {
    if (this.#shrunk.has(item)) return false
    this.#shrunk.add(item)
    item.record = withoutPayload(item.record)
    return true
  }

  written(items: readonly Item[]): void {
    for (const item of items) this.#settle(item)
  }

  forget(): void {
    for (const item of this.#waiting.keys()) if (item.from.tracker.isForgotten) this.#settle(item)
  }

  #settle(item: Item): void {
    this.#waiting.get(item)?.()
    this.#waiting.delete(item)
  }
}
