// Sends dead letters to the errors sink, which retries without a limit. A dead letter that the sink rejects is sent once more without
// its payload.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Message } from '../../message/message.ts'
import type { InFlightMessage, QueueEntry } from '../pipeline/in-flight-message.ts'
import type { SinkWorkers } from '../sinks/sink-workers.ts'
import { type DeadLetterBuilder, type DeadLetterOrigin, type Failure, withoutPayload } from './dead-letter.ts'

export interface DeadLetterSenderDeps {
  readonly clock: Clock
  readonly builder: DeadLetterBuilder
  readonly sinkWorkers: SinkWorkers
}

export class DeadLetterSender {
  readonly #deps: DeadLetterSenderDeps
  readonly #pending = new Map<QueueEntry, () => void>()
  readonly #withoutPayload = new WeakSet<QueueEntry>()

  constructor(deps: DeadLetterSenderDeps) {
    this.#deps = deps
  }

  /** Resolves when the errors sink acknowledged the dead letter, or the partition was revoked. */
  send(from: InFlightMessage, payload: Message, failure: Failure, origin: DeadLetterOrigin): Promise<void> {
    const { builder, clock, sinkWorkers } = this.#deps
    const record = builder.build(payload, failure, origin, clock.now())
    const entry: QueueEntry = { record, from, index: origin.recordIndex, bytes: payload.bytes, isLast: true }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#pending.set(entry, resolve)
    const errorsWorker = sinkWorkers.errors!
    errorsWorker.push(entry, clock.monotonicMs())
    errorsWorker.wake()
    return promise
  }

  /** True if the payload was removed and another attempt makes sense. */
  removePayload(entry: QueueEntry): boolean {
    if (this.#withoutPayload.has(entry)) return false
    this.#withoutPayload.add(entry)
    entry.record = withoutPayload(entry.record)
    return true
  }

  acknowledge(entries: readonly QueueEntry[]): void {
    for (const entry of entries) this.#settle(entry)
  }

  dropForgotten(): void {
    for (const entry of this.#pending.keys()) if (entry.from.tracker.isForgotten) this.#settle(entry)
  }

  #settle(entry: QueueEntry): void {
    this.#pending.get(entry)?.()
    this.#pending.delete(entry)
  }
}
