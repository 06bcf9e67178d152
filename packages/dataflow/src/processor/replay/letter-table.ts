// Letters in a table: read in the order in which they were written, marked in `replayed_at` once they are done. What fails again keeps
// its row, with one attempt more and without the mark.
import type { PostgresqlSink } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type pg from 'pg'
import type { Batch, Budget, Capabilities, ConnectorContext, Lag, Position, Positions, Rec, Sink, Source } from '../connectors/connector.ts'
import { connectPostgres } from '../connectors/postgresql-client.ts'
import { postgresError } from '../connectors/postgresql-errors.ts'
import { quotedTable } from '../connectors/sql.ts'
import { parsePayload } from '../json.ts'
import { type Message, newMessage } from '../message.ts'
import { contentOf, isOmitted, isSelected, type Letter, readLetter, type Selection } from './letter.ts'
import type { LetterBook } from './letter-book.ts'

export interface LetterTableOptions {
  readonly config: PostgresqlSink
  readonly flow: string
  readonly selection: Selection
}
interface Row {
  readonly id: string
  readonly at: string
  readonly letter: string
}

const pageRows = 500
const partition = 'letters'
const nowhere = { at: '-infinity', id: '' }

/** Positions count the letters of this run: rows have none of their own that only grow. */
export class LetterTable implements Source {
  readonly origin = 'letters'
  readonly #context: ConnectorContext
  readonly #options: LetterTableOptions
  readonly #book: LetterBook
  readonly #table: string
  #client: pg.Client | undefined
  /** Ids of the letters that are under way, from position `#first` on. */
  readonly #ids: string[] = []
  #first = 0
  #after = nowhere
  /** Letters that failed again, or cannot be replayed: they stay unmarked. */
  readonly #kept = new Set<string>()

  constructor(context: ConnectorContext, book: LetterBook, options: LetterTableOptions) {
    this.#context = context
    this.#options = options
    this.#book = book
    this.#table = quotedTable(options.config.table ?? '')
  }

  async connect(): Promise<void> {
    await this.close()
    this.#client = await connectPostgres(this.#options.config, this.#context)
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    const { max = Number.POSITIVE_INFINITY } = this.#options.selection
    for (let left = max; left > 0 && !this.#context.signal.aborted; ) {
      await budget.room(this.#context.signal)
      const rows = await this.#page(Math.min(pageRows, left))
      const messages = rows.flatMap((row) => this.#message(row) ?? [])
      left -= messages.length
      if (messages.length > 0) yield { messages }
      if (rows.length === 0) return
    }
  }

  /** Up to the newest letter there was at the start of the run: a letter written meanwhile is for the next one. */
  async #page(limit: number): Promise<Row[]> {
    const { rows } = await this.#query<Row>(
      `select id, created_at::text as at, json_build_object('error', error::jsonb, 'original_message', original_message::jsonb)::text as letter
       from ${this.#table}
       where replayed_at is null and error::jsonb->>'flow' = $1 and (created_at, id) > ($2::timestamptz, $3)
         and created_at <= coalesce($5::timestamptz, now())
       order by created_at, id limit $4`,
      [this.#options.flow, this.#after.at, this.#after.id, limit, this.#until],
    )
    this.#until ??= (await this.#query<{ now: string }>('select now()::text as now', [])).rows[0]!.now
    return rows
  }
  #until: string | undefined

  #message({ id, at, letter: text }: Row): Message | undefined {
    this.#after = { at, id }
    const letter = readLetter(parsePayload(Buffer.from(text)))
    if (letter === undefined || !isSelected(letter, this.#options.selection)) return undefined
    if (isOmitted(letter)) this.#kept.add(id)
    const position = this.#first + this.#ids.push(id) - 1
    this.#book.note({ partition, position }, letter)
    return newMessage({ ...contentOf(letter), position, partition, bytes: text.length })
  }

  async commit(upTo: Positions): Promise<void> {
    const last = upTo.get(partition) as number | undefined
    if (last === undefined) return
    const count = last - this.#first + 1
    const done = this.#ids.slice(0, count).filter((id) => !this.#kept.has(id))
    await this.#query(`update ${this.#table} set replayed_at = now() where id = any($1::text[])`, [done])
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
    const letters = batch.map(({ json }) => json as unknown as { error: Letter['error']; original_message: unknown })
    const columns = [
      letters.map(({ error }) => error.id),
      letters.map(({ error }) => JSON.stringify(error)),
      letters.map(({ original_message }) => JSON.stringify(original_message)),
    ]
    for (const id of columns[0]!) this.#kept.add(id)
    await this.#query(
      `insert into ${this.#table} as kept (id, error, original_message)
       select id, error::jsonb, original::jsonb from unnest($1::text[], $2::text[], $3::text[]) as given (id, error, original)
       on conflict (id) do update set error = excluded.error, replayed_at = null`,
      columns,
    )
  }

  async #query<R extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<pg.QueryResult<R>> {
    try {
      if (this.#client === undefined) await this.connect()
      return await this.#client!.query<R>(text, values)
    } catch (thrown) {
      await this.close()
      throw postgresError(thrown, `work on the letters in table ${this.#options.config.table ?? ''}`)
    }
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => undefined)
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

  /** Every run begins with what is unmarked. */
  rewind(): Promise<void> {
    return Promise.resolve()
  }
}
