// All messages between reading and the committed prefix: opens them, splits them into records, ends them, and knows how far each
// partition may be committed. The only place where budget, trackers and counts change.

import { type OpenBudget, overheadBytes } from './budget.ts'
import type { Fault } from './connectors/connector.ts'
import type { Message, Partition, Position } from './message.ts'
import { type Ending, endRecord, type OpenMessage, openMessage, type RecordEnding } from './open-message.ts'
import { PartitionTracker } from './tracker.ts'
import { Waiter } from './waiter.ts'

export interface EndingCounts {
  written: number
  dropped: number
  'dead-lettered': number
}

export interface OpenMessagesDeps {
  readonly budget: OpenBudget
  /** A message has ended; its payload is still there. */
  ended?(of: OpenMessage, ending: Ending): void
  /** Some prefix moved by so many messages. */
  moved(by: number): void
}

export class OpenMessages {
  readonly #deps: OpenMessagesDeps
  readonly #trackers = new Map<Partition, PartitionTracker>()
  readonly #waiter = new Waiter()
  /** Messages that have not ended. */
  open = 0

  constructor(deps: OpenMessagesDeps) {
    this.#deps = deps
  }

  trackerOf(partition: Partition): PartitionTracker {
    const known = this.#trackers.get(partition)
    if (known !== undefined) return known
    const made = new PartitionTracker(partition)
    this.#trackers.set(partition, made)
    return made
  }

  get trackers(): Iterable<PartitionTracker> {
    return this.#trackers.values()
  }

  add(message: Message, tracker: PartitionTracker, readAtMs: number, fault?: Fault): OpenMessage {
    const bytes = message.bytes + overheadBytes
    const opened = openMessage(message, tracker, { readAtMs, bytes, fault })
    tracker.add(opened)
    this.#deps.budget.take(bytes)
    this.#deps.budget.movePositions(1)
    this.open += 1
    return opened
  }

  /** The chain made these records of a message; returns what each weighs. An unchanged message weighs nothing more. */
  becameRecords(of: OpenMessage, records: readonly Message[]): number {
    const weight = Math.ceil((of.message?.bytes ?? 0) / records.length)
    of.open = records.length
    if (records.length === 1 && records[0]!.state !== 'changed') return weight
    const bytes = (weight + overheadBytes) * records.length
    of.bytes += bytes
    this.#deps.budget.take(bytes)
    return weight
  }

  /** Its letter is written but it stays open on purpose: only the payload goes. */
  releasePayload(of: OpenMessage): void {
    of.message = undefined
    this.#deps.budget.give(of.bytes)
    of.bytes = 0
  }

  end(of: OpenMessage, ending: RecordEnding): void {
    // Given back with its partition: whoever reads that now will end it.
    if (of.tracker.isForgotten) return
    const outcome = endRecord(of, ending)
    if (outcome === undefined) return
    this.#deps.ended?.(of, outcome)
    this.#release(of)
    const moved = of.tracker.advance()
    if (moved === 0) return
    this.#deps.budget.movePositions(-moved)
    this.#deps.moved(moved)
    this.#waiter.wake()
  }

  #release(of: OpenMessage): void {
    this.open -= 1
    this.releasePayload(of)
  }

  /** Resolves when some prefix has moved, partitions were forgotten, or the signal is aborted. */
  changed(signal: AbortSignal): Promise<void> {
    return this.#waiter.wait({ signal })
  }

  /** How far each partition may be committed. */
  prefixes(): Map<Partition, Position> {
    const all = new Map<Partition, Position>()
    for (const { partition, prefix } of this.#trackers.values()) if (prefix.position !== undefined) all.set(partition, prefix.position)
    return all
  }

  counts(): EndingCounts {
    const sum = { ...this.#gone }
    for (const { prefix } of this.#trackers.values()) for (const ending of endings) sum[ending] += prefix.counts[ending]
    return sum
  }
  readonly #gone: EndingCounts = { written: 0, dropped: 0, 'dead-lettered': 0 }

  openIn(partitions: readonly Partition[]): number {
    return partitions.reduce<number>((sum, partition) => sum + (this.#trackers.get(partition)?.size ?? 0), 0)
  }

  /** Partitions that were given back: what is still open of them ends without effect. */
  forget(partitions: readonly Partition[]): void {
    for (const partition of partitions) {
      const tracker = this.#trackers.get(partition)
      if (tracker === undefined) continue
      this.#trackers.delete(partition)
      tracker.isForgotten = true
      this.#deps.budget.movePositions(-tracker.size)
      for (const ending of endings) this.#gone[ending] += tracker.prefix.counts[ending]
      for (const of of tracker.open()) this.#release(of)
    }
    this.#waiter.wake()
  }
}

const endings = ['written', 'dropped', 'dead-lettered'] as const
