// The letters of the messages that are under way, by the position a message has in this run: what a step of the pipeline holds is a
// copy of the message, and its position is what all copies share.
import type { Message, Partition, Position } from '../message.ts'
import type { Letter } from './letter.ts'

type At = Pick<Message, 'partition' | 'position'>

export class LetterBook {
  readonly #byPartition = new Map<Partition, Map<Position, Letter>>()

  note({ partition, position }: At, letter: Letter): void {
    const kept = this.#byPartition.get(partition)
    if (kept === undefined) this.#byPartition.set(partition, new Map([[position, letter]]))
    else kept.set(position, letter)
  }

  of({ partition, position }: At): Letter | undefined {
    return this.#byPartition.get(partition)?.get(position)
  }

  /** Everything up to these has ended. Positions were noted in order. */
  forget(upTo: ReadonlyMap<Partition, Position>, compare: (left: Position, right: Position) => number): void {
    for (const [partition, last] of upTo) {
      const kept = this.#byPartition.get(partition)
      for (const position of kept?.keys() ?? []) {
        if (compare(position, last) > 0) break
        kept!.delete(position)
      }
    }
  }
}
