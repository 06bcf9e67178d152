// All messages between read and committed prefix: adds them, splits them into records, records outcomes, and computes how far each
// partition may be committed. Only this class changes the budget, the trackers and the outcome counts.

import type { Fault } from '../../connectors/connector.ts'
import type { Message, Partition, Position } from '../../message/message.ts'
import { type InFlightBudget, overheadBytes } from './in-flight-budget.ts'
import { createInFlightMessage, finishRecord, type InFlightMessage, type MessageOutcome, type RecordOutcome } from './in-flight-message.ts'
import { PartitionTracker } from './partition-tracker.ts'
import { Waiter } from './waiter.ts'

export interface OutcomeCounts {
  written: number
  dropped: number
  'dead-lettered': number
}

export interface InFlightListener {
  /** Called before the payload is released. */
  onOutcome(message: InFlightMessage, outcome: MessageOutcome): void
  onPrefixAdvance(messages: number): void
}

export class InFlightMessages {
  readonly #budget: InFlightBudget
  readonly #trackers = new Map<Partition, PartitionTracker>()
  readonly #waiter = new Waiter()
  readonly #forgottenCounts: OutcomeCounts = { written: 0, dropped: 0, 'dead-lettered': 0 }
  #listener: Partial<InFlightListener> = {}
  /** Messages without an outcome. */
  count = 0

  constructor(budget: InFlightBudget) {
    this.#budget = budget
  }

  listen(listener: Partial<InFlightListener>): void {
    this.#listener = listener
  }

  getTracker(partition: Partition): PartitionTracker {
    let tracker = this.#trackers.get(partition)
    if (tracker === undefined) {
      tracker = new PartitionTracker(partition)
      this.#trackers.set(partition, tracker)
    }
    return tracker
  }

  get trackers(): Iterable<PartitionTracker> {
    return this.#trackers.values()
  }

  add(message: Message, tracker: PartitionTracker, readAtMs: number, fault?: Fault): InFlightMessage {
    const bytes = message.bytes + overheadBytes
    const inFlightMessage = createInFlightMessage(message, tracker, { readAtMs, bytes, fault })
    tracker.add(inFlightMessage)
    this.#budget.reserve(bytes)
    this.#budget.addPositions(1)
    this.count += 1
    return inFlightMessage
  }

  /** Registers the records that the chain made of a message; returns the bytes of each. An unchanged message reserves nothing more. */
  splitIntoRecords(message: InFlightMessage, records: readonly Message[]): number {
    const bytesEach = Math.ceil((message.message?.bytes ?? 0) / records.length)
    message.pendingRecords = records.length
    if (records.length === 1 && records[0]!.state !== 'changed') return bytesEach
    const bytes = (bytesEach + overheadBytes) * records.length
    message.bytes += bytes
    this.#budget.reserve(bytes)
    return bytesEach
  }

  /** For ackPolicy never: the dead letter is written, the message stays in flight, only its payload is released. */
  releasePayload(message: InFlightMessage): void {
    message.message = undefined
    this.#budget.release(message.bytes)
    message.bytes = 0
  }

  finishRecord(message: InFlightMessage, recordOutcome: RecordOutcome): void {
    // The partition was revoked: its new reader decides the outcome.
    if (message.tracker.isForgotten) return
    const outcome = finishRecord(message, recordOutcome)
    // A transaction of another sink may wait for this record.
    if (outcome === undefined) return this.#waiter.wake()
    this.#listener.onOutcome?.(message, outcome)
    this.#release(message)
    const messages = message.tracker.advancePrefix()
    if (messages === 0) return
    this.#budget.addPositions(-messages)
    this.#listener.onPrefixAdvance?.(messages)
    this.#waiter.wake()
  }

  #release(message: InFlightMessage): void {
    this.count -= 1
    this.releasePayload(message)
  }

  /** Resolves when a record got an outcome, a prefix advanced, partitions were forgotten, or the signal is aborted. */
  waitForChange(signal: AbortSignal): Promise<void> {
    return this.#waiter.wait({ signal })
  }

  /** Position up to which each partition may be committed. */
  getPrefixes(): Map<Partition, Position> {
    const prefixes = new Map<Partition, Position>()
    for (const { partition, prefix } of this.#trackers.values()) if (prefix.position !== undefined) prefixes.set(partition, prefix.position)
    return prefixes
  }

  /** Outcomes inside the prefixes, including those of forgotten partitions. */
  getCounts(): OutcomeCounts {
    const counts = { ...this.#forgottenCounts }
    for (const { prefix } of this.#trackers.values()) for (const outcome of outcomes) counts[outcome] += prefix.counts[outcome]
    return counts
  }

  countIn(partitions: readonly Partition[]): number {
    return partitions.reduce<number>((sum, partition) => sum + (this.#trackers.get(partition)?.size ?? 0), 0)
  }

  /** Drops revoked partitions: later outcomes of their messages have no effect. */
  forgetPartitions(partitions: readonly Partition[]): void {
    for (const partition of partitions) {
      const tracker = this.#trackers.get(partition)
      if (tracker === undefined) continue
      this.#trackers.delete(partition)
      tracker.isForgotten = true
      this.#budget.addPositions(-tracker.size)
      for (const outcome of outcomes) this.#forgottenCounts[outcome] += tracker.prefix.counts[outcome]
      for (const message of tracker.listPending()) this.#release(message)
    }
    this.#waiter.wake()
  }
}

const outcomes = ['written', 'dropped', 'dead-lettered'] as const
