// Positions of one partition in read order, and the prefix of messages with an outcome: only the prefix may be committed. A message
// that has an outcome behind a pending one is kept here with its position alone.

import type { Partition, Position } from '../../message/message.ts'
import type { InFlightMessage, MessageOutcome } from './in-flight-message.ts'

export interface CommittedPrefix {
  /** Last position of the prefix; undefined while it is empty. */
  position: Position | undefined
  readonly counts: Record<MessageOutcome, number>
}

export class PartitionTracker {
  readonly partition: Partition
  /** Last position read. A source that repeats messages after an interruption is recognized by it. */
  lastRead: Position | undefined
  /** The partition was revoked: outcomes of its messages no longer count. */
  isForgotten = false
  readonly prefix: CommittedPrefix = { position: undefined, counts: { written: 0, dropped: 0, 'dead-lettered': 0 } }
  #queue: InFlightMessage[] = []
  #head = 0

  constructor(partition: Partition) {
    this.partition = partition
  }

  /** Messages read that are not part of the prefix. */
  get size(): number {
    return this.#queue.length - this.#head
  }

  add(message: InFlightMessage): void {
    this.#queue.push(message)
    this.lastRead = message.position
  }

  /** Returns the number of messages by which the prefix advanced. */
  advancePrefix(): number {
    const start = this.#head
    for (let first = this.#queue[this.#head]; first?.outcome !== undefined; first = this.#queue[this.#head]) {
      this.prefix.position = first.position
      this.prefix.counts[first.outcome] += 1
      this.#head += 1
    }
    const messages = this.#head - start
    if (this.#head > 1024 && this.#head * 2 > this.#queue.length) this.#shrink()
    return messages
  }

  /** The prefix if `candidates` had an outcome now, and how many of them it would include. A transaction may commit only such a
   *  prefix: it must not pass a message that is pending elsewhere. */
  prefixIncluding(candidates: ReadonlySet<InFlightMessage>): { position: Position | undefined; covered: number } {
    let position = this.prefix.position
    let covered = 0
    for (let at = this.#head; at < this.#queue.length; at += 1) {
      const message = this.#queue[at]!
      if (message.outcome === undefined && !candidates.has(message)) break
      if (message.outcome === undefined) covered += 1
      position = message.position
    }
    return { position, covered }
  }

  get oldestPending(): InFlightMessage | undefined {
    return this.#queue[this.#head]
  }

  *listPending(): Iterable<InFlightMessage> {
    for (let at = this.#head; at < this.#queue.length; at += 1) if (this.#queue[at]!.outcome === undefined) yield this.#queue[at]!
  }

  #shrink(): void {
    this.#queue = this.#queue.slice(this.#head)
    this.#head = 0
  }
}
