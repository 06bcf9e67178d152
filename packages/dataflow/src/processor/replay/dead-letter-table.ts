// Dead letters in a table as the source of a replay: read in write order and marked when they are done. A dead letter that fails again
// keeps its row, with one attempt more.
import type {
  Batch,
  Budget,
  Capabilities,
  ConnectorContext,
  Lag,
  Position,
  Positions,
  Rec,
  Sink,
  Source,
} from '../../connectors/connector.ts'
import type { DeadLetterRow, DeadLetterRows } from '../../connectors/dead-letter-rows.ts'
import { parsePayload } from '../../message/json.ts'
import { type Message, newMessage } from '../../message/message.ts'
import type { InFlightDeadLetters } from './in-flight-dead-letters.ts'
import { hasNoPayload, isSelected, parseDeadLetter, type Selection, type StoredDeadLetter, toMessageContent } from './stored-dead-letter.ts'

export interface DeadLetterTableOptions {
  readonly rows: DeadLetterRows
  readonly flow: string
  readonly selection: Selection
}
const pageRows = 500
const partition = 'letters'

/** A position is the number of the dead letter in this run, because rows have no growing position. */
export class DeadLetterTable implements Source {
  readonly origin = 'letters'
  readonly #context: ConnectorContext
  readonly #options: DeadLetterTableOptions
  readonly #book: InFlightDeadLetters
  /** Ids of the dead letters in flight, from position `#first` on. */
  readonly #ids: string[] = []
  #first = 0
  #after: Pick<DeadLetterRow, 'at' | 'id'> | undefined
  /** Dead letters that failed again or cannot be replayed: `replayed_at` stays null. */
  readonly #kept = new Set<string>()

  constructor(context: ConnectorContext, book: InFlightDeadLetters, options: DeadLetterTableOptions) {
    this.#context = context
    this.#options = options
    this.#book = book
  }

  connect(): Promise<void> {
    return this.#options.rows.connect()
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    const { max = Number.POSITIVE_INFINITY } = this.#options.selection
    for (let remaining = max; remaining > 0 && !this.#context.signal.aborted; ) {
      await budget.room(this.#context.signal)
      const rows = await this.#options.rows.page(this.#options.flow, this.#after, Math.min(pageRows, remaining))
      const messages = rows.flatMap((row) => this.#message(row) ?? [])
      remaining -= messages.length
      if (messages.length > 0) yield { messages }
      if (rows.length === 0) return
    }
  }

  #message({ id, at, letter: text }: DeadLetterRow): Message | undefined {
    this.#after = { at, id }
    const letter = parseDeadLetter(parsePayload(Buffer.from(text)))
    if (letter === undefined || !isSelected(letter, this.#options.selection)) return undefined
    if (hasNoPayload(letter)) this.#kept.add(id)
    const position = this.#first + this.#ids.push(id) - 1
    this.#book.note({ partition, position }, letter)
    return newMessage({ ...toMessageContent(letter), position, partition, bytes: text.length })
  }

  async commit(upTo: Positions): Promise<void> {
    const last = upTo.get(partition) as number | undefined
    if (last === undefined) return
    const count = last - this.#first + 1
    const replayedIds = this.#ids.slice(0, count).filter((id) => !this.#kept.has(id))
    await this.#options.rows.markReplayed(replayedIds)
    this.#ids.splice(0, count)
    this.#first += count
    this.#book.forget(upTo, (left, right) => this.compare(left, right))
  }

  /** The errors sink of a replay. */
  asSink(): Sink {
    const capabilities: Capabilities = { exactlyOnce: 'AtLeastOnce', isUpsert: true }
    return {
      connect: () => Promise.resolve(capabilities),
      write: (batch) => this.#keep(batch),
      highWater: () => Promise.resolve(new Map()),
      forget: () => Promise.resolve(),
      close: () => Promise.resolve(),
    }
  }

  async #keep(batch: readonly Rec[]): Promise<void> {
    const letters = batch.map(({ json }) => json as unknown as { error: StoredDeadLetter['error']; original_message: unknown })
    for (const { error } of letters) this.#kept.add(error.id)
    await this.#options.rows.keep(
      letters.map(({ error, original_message }) => ({
        id: error.id,
        error: JSON.stringify(error),
        original: JSON.stringify(original_message),
      })),
    )
  }

  close(): Promise<void> {
    return this.#options.rows.close()
  }

  compare(left: Position, right: Position): number {
    return (left as number) - (right as number)
  }

  describe(positions: Positions): string {
    return [...positions.values()].map((position) => `letter ${position as number}`).join(' ')
  }

  lag(): Promise<Lag> {
    return Promise.resolve({})
  }

  state(): undefined {
    return undefined
  }

  /** Every run starts with the rows whose `replayed_at` is null. */
  rewind(): Promise<void> {
    return Promise.resolve()
  }
}
