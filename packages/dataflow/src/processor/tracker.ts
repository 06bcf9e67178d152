// Positions of one partition in read order, and how far the run of ended messages reaches from the front: only that may be committed.
// An ending behind an open message waits here with its position alone.

import type { Partition, Position } from './message.ts'
import type { Ending, OpenMessage } from './open-message.ts'

export interface Prefix {
  /** The last position of the run; undefined while it is empty. */
  position: Position | undefined
  readonly counts: Record<Ending, number>
}

export class PartitionTracker {
  readonly partition: Partition
  /** Grows with each message read: what a source hands out again after an interruption is known by it. */
  lastRead: Position | undefined
  /** The partition was given back: its endings no longer count here. */
  isForgotten = false
  readonly prefix: Prefix = { position: undefined, counts: { written: 0, dropped: 0, 'dead-lettered': 0 } }
  #queue: OpenMessage[] = []
  #head = 0

  constructor(partition: Partition) {
    this.partition = partition
  }

  /** Messages read that are not part of the prefix. */
  get size(): number {
    return this.#queue.length - this.#head
  }

  add(message: OpenMessage): void {
    this.#queue.push(message)
    this.lastRead = message.position
  }

  /** Moves the prefix as far as it goes; returns by how many messages. */
  advance(): number {
    const start = this.#head
    for (let first = this.#queue[this.#head]; first?.ending !== undefined; first = this.#queue[this.#head]) {
      this.prefix.position = first.position
      this.prefix.counts[first.ending] += 1
      this.#head += 1
    }
    const moved = this.#head - start
    if (this.#head > 1024 && this.#head * 2 > this.#queue.length) this.#shrink()
    return moved
  }

  /** Where the prefix would stand if these ended now, and how many of them it would take in. For transactions: what they commit must
   *  not pass a message that is open elsewhere. */
  prefixWith(ending: ReadonlySet<OpenMessage>): { position: Position | undefined; covered: number } {
    let position = this.prefix.position
    let covered = 0
    for (let at = this.#head; at < this.#queue.length; at += 1) {
      const message = this.#queue[at]!
      if (message.ending === undefined && !ending.has(message)) break
      if (message.ending === undefined) covered += 1
      position = message.position
    }
    return { position, covered }
  }

  /** Oldest message that has not ended. */
  get oldestOpen(): OpenMessage | undefined {
    return this.#queue[this.#head]
  }

  *open(): Iterable<OpenMessage> {
    for (let at = this.#head; at < this.#queue.length; at += 1) if (this.#queue[at]!.ending === undefined) yield this.#queue[at]!
  }

  #shrink(): void {
    this.#queue = this.#queue.slice(this.#head)
    this.#head = 0
  }
}
