// Dead letters in a table of Trino. Many catalogs cannot change rows, so a change of a letter is another row with its id: of several rows
// the one with the most attempts counts, and a row with `replayed_at` says that the letter is done.
import type { TrinoSink } from '@brokkr/contract/dataflow/connectors/trino.ts'
import { newMessage } from '../../message/message.ts'
import { type ConnectorContext, ConnectorError } from '../connector.ts'
import type { DeadLetterRow, DeadLetterRows, KeptDeadLetter } from '../dead-letter-rows.ts'
import { type QueryResult, TrinoClient } from './client.ts'
import { toTrinoError } from './errors.ts'
import { quotePlace, quoteText, type TablePlace, toPlace } from './sql.ts'
import { buildInserts } from './statements.ts'
import { type Columns, readColumns } from './table.ts'

/** Ids in one statement. */
const idsMax = 1000

interface Opened {
  readonly client: TrinoClient
  readonly columns: Columns
}

export class TrinoDeadLetters implements DeadLetterRows {
  readonly #config: TrinoSink
  readonly #context: ConnectorContext
  readonly #place: TablePlace
  #opened: Opened | undefined
  #until: string | undefined

  constructor(config: TrinoSink, context: ConnectorContext) {
    this.#config = config
    this.#context = context
    this.#place = toPlace(config.table ?? '', { catalog: config.catalog ?? '', schema: config.schema ?? '' })
  }

  async connect(): Promise<void> {
    await this.close()
    await this.#withErrorContext(() => this.#open())
  }

  async page(flow: string, after: Pick<DeadLetterRow, 'at' | 'id'> | undefined, limit: number): Promise<readonly DeadLetterRow[]> {
    this.#until ??= this.#now()
    const until = this.#until
    const { rows } = await this.#query((timeOf) => {
      const behind =
        after === undefined
          ? ''
          : `AND (first_at > ${timeOf(after.at)} OR (first_at = ${timeOf(after.at)} AND id > ${quoteText(after.id)}))`
      return `SELECT id, CAST(first_at AS varchar), error, original_message
        FROM (${this.#latest(`json_extract_scalar(error, '$.flow') = ${quoteText(flow)}`)})
        WHERE place = 1 AND done_at IS NULL AND first_at <= ${timeOf(until)} ${behind} ORDER BY first_at, id LIMIT ${limit}`
    })
    return (rows as [string, string, string, string][]).map(([id, at, error, original]) => ({
      id,
      at,
      letter: `{"error":${error},"original_message":${original}}`,
    }))
  }

  async markReplayed(ids: readonly string[]): Promise<void> {
    for (let from = 0; from < ids.length; from += idsMax) {
      const part = ids.slice(from, from + idsMax).map(quoteText)
      await this.#query(
        (timeOf) => `INSERT INTO ${quotePlace(this.#place)} (id, error, original_message, created_at, replayed_at)
          SELECT id, error, original_message, first_at, ${timeOf(this.#now())}
          FROM (${this.#latest(`id IN (${part.join(', ')})`)}) WHERE place = 1 AND done_at IS NULL`,
      )
    }
  }

  /** The first row of a letter has its time; this one has its error with one attempt more. */
  async keep(letters: readonly KeptDeadLetter[]): Promise<void> {
    const createdAt = new Date(this.#context.clock.now()).toISOString()
    const rows = letters.map(({ id, error, original }, position) => {
      const json = { id, error, original_message: original, created_at: createdAt }
      return newMessage({ json, metadata: {}, position, partition: 'letters', bytes: 0 })
    })
    await this.#withErrorContext(async () => {
      const { client, columns } = await this.#open()
      const config = {
        unknownFields: 'ignore',
        rawMode: false,
        flattenMetadataColumns: false,
        flattenMetadataColumnsPrefix: undefined,
      } as const
      for (const { sql } of buildInserts(rows, quotePlace(this.#place), columns, config)) await client.query(sql)
    })
  }

  async close(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    await opened?.client.close()
  }

  #latest(where: string): string {
    return `SELECT id, error, original_message, min(created_at) OVER (PARTITION BY id) AS first_at, max(replayed_at) OVER (PARTITION BY id) AS done_at,
      row_number() OVER (PARTITION BY id ORDER BY TRY_CAST(json_extract_scalar(error, '$.attempts') AS bigint) DESC) AS place
      FROM ${quotePlace(this.#place)} WHERE ${where}`
  }

  /** As the server prints a time in UTC. */
  #now(): string {
    return `${new Date(this.#context.clock.now()).toISOString().replace('T', ' ').replace('Z', '')} UTC`
  }

  /** `timeOf` prints a time as a literal of the type of created_at. */
  #query(toSql: (timeOf: (text: string) => string) => string): Promise<QueryResult> {
    return this.#withErrorContext(async () => {
      const { client, columns } = await this.#open()
      const type = columns.get('created_at')?.type ?? 'timestamp(6) with time zone'
      const timeOf = (text: string) => `CAST(${quoteText(type.endsWith('with time zone') ? text : text.replace(/ UTC$/, ''))} AS ${type})`
      return client.query(toSql(timeOf), { signal: this.#context.signal })
    })
  }

  async #open(): Promise<Opened> {
    if (this.#opened !== undefined) return this.#opened
    const client = await TrinoClient.open(this.#config, this.#context)
    const columns = await readColumns(client, this.#place).catch(async (thrown: unknown) => {
      await client.close()
      throw thrown
    })
    if (columns === undefined) {
      await client.close()
      throw new ConnectorError({ class: 'config', type: 'unknown' }, `table ${this.#config.table ?? ''} does not exist`)
    }
    this.#opened = { client, columns }
    return this.#opened
  }

  async #withErrorContext<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (thrown) {
      throw toTrinoError(thrown, `work on the letters in table ${this.#config.table ?? ''}`)
    }
  }
}
