// Dead letters of the messages in flight, by position in this run. Steps of the pipeline copy a message, and all copies share its position.
import type { Message, Partition, Position } from '../../message/message.ts'
import type { StoredDeadLetter } from './stored-dead-letter.ts'

type At = Pick<Message, 'partition' | 'position'>

export class InFlightDeadLetters {
  readonly #byPartition = new Map<Partition, Map<Position, StoredDeadLetter>>()

  note({ partition, position }: At, letter: StoredDeadLetter): void {
    const byPosition = this.#byPartition.get(partition)
    if (byPosition === undefined) this.#byPartition.set(partition, new Map([[position, letter]]))
    else byPosition.set(position, letter)
  }

  find({ partition, position }: At): StoredDeadLetter | undefined {
    return this.#byPartition.get(partition)?.get(position)
  }

  /** Removes all up to these positions; positions were added in order. */
  forget(upTo: ReadonlyMap<Partition, Position>, compare: (left: Position, right: Position) => number): void {
    for (const [partition, last] of upTo) {
      const byPosition = this.#byPartition.get(partition)
      for (const position of byPosition?.keys() ?? []) {
        if (compare(position, last) > 0) break
        byPosition!.delete(position)
      }
    }
  }
}
