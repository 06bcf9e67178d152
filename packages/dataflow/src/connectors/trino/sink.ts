// Writes records to a table by insert statements. A statement whose answer was lost is looked up by its source text before it is
// repeated; across restarts, and if the server forgot the query, delivery is at least once.
import { randomUUID } from 'node:crypto'
import type { TrinoSink as SinkConfig } from '@brokkr/contract/dataflow/connectors/trino.ts'
import type { Json, JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withPayload } from '../../message/message.ts'
import { collectFields } from '../column-values.ts'
import type { Capabilities, Fault, Partition, Position, Positions, Rec, Sink, SinkContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { TrinoClient } from './client.ts'
import { TrinoQueryFailed, TrinoRejection, toTrinoError } from './errors.ts'
import { quotePlace, quoteText, type TablePlace, toPlace } from './sql.ts'
import { buildInserts, type InsertStatement, toFields } from './statements.ts'
import { addColumnText, type Columns, createDeadLetterTableText, createRawTableText, createTableText, readColumns } from './table.ts'

/** A statement without an answer. */
interface Doubt {
  readonly source: string
  readonly records: readonly Rec[]
  /** Address of the page that was requested last; undefined if the server has not answered at all. */
  nextUri: string | undefined
}

/** Pause between two looks at a query that still runs. */
const lookMs = 500

export class TrinoSink implements Sink {
  readonly writeTimeoutMs: number
  readonly #config: SinkConfig
  readonly #context: SinkContext
  readonly #place: TablePlace
  readonly #name: string
  #client: TrinoClient | undefined
  #columns: Columns | undefined
  #doubt: Doubt | undefined
  readonly #stored = new WeakSet<Rec>()
  /** Row of each dead letter: a repeated attempt must find that its row is stored. */
  readonly #letterRows = new WeakMap<Rec, Rec>()

  constructor(config: SinkConfig, context: SinkContext) {
    this.#config = context.role === 'errors' ? { ...config, rawMode: false, unknownFields: 'ignore' } : config
    this.#context = context
    this.#name = config.table ?? ''
    this.#place = toPlace(this.#name, { catalog: config.catalog ?? '', schema: config.schema ?? '' })
    this.writeTimeoutMs = config.queryTimeoutSeconds * 1000
  }

  async connect(): Promise<Capabilities> {
    await this.close()
    return this.#withErrorContext('open', async () => {
      const client = await TrinoClient.open(this.#config, this.#context)
      this.#client = client
      this.#columns = await readColumns(client, this.#place)
      if (this.#columns === undefined && !this.#config.autoCreateTable) throw this.#missing()
      return { exactlyOnce: 'AtLeastOnce', isUpsert: false, reason: 'trino inserts can be repeated after a restart' }
    })
  }

  async write(records: readonly Rec[], _positions: Positions, signal?: AbortSignal): Promise<void> {
    // A dead letter is written with its own time: the table has no default.
    const batch = this.#context.role === 'errors' ? records.map((letter) => this.#toLetterRow(letter)) : records
    await this.#withErrorContext('write to', async () => {
      await this.#settle(signal)
      const rest = batch.filter((record) => !this.#stored.has(record))
      const statements = await this.#statementsFor(rest)
      let durable = batch.length - rest.length
      for (const statement of statements) {
        await this.#insert(statement, signal).catch((thrown: unknown) => {
          throw withDurable(toTrinoError(thrown, `write to table ${this.#name}`), isPrefix(batch, rest) ? durable : 0)
        })
        durable += statement.records.length
      }
    })
  }

  highWater(): Promise<Map<Partition, Position>> {
    return Promise.resolve(new Map())
  }

  forget(): Promise<void> {
    return Promise.resolve()
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.close()
  }

  /** For the preview: statements are built, and the server explains them without running them. */
  async tryOut(records: readonly Rec[]): Promise<(Fault | undefined)[]> {
    const outcomes: (Fault | undefined)[] = []
    for (const record of records) {
      try {
        if (this.#columns === undefined || this.#config.unknownFields === 'addColumn') toFields(record, 0, this.#config)
        else for (const { sql } of this.#build([record], this.#columns)) await this.#ready().query(`EXPLAIN ${sql}`)
        outcomes.push(undefined)
      } catch (thrown) {
        const { type, message } = toTrinoError(thrown, `write to table ${this.#name}`)
        outcomes.push({ type, message })
      }
    }
    return outcomes
  }

  async #insert(statement: InsertStatement, signal: AbortSignal | undefined): Promise<void> {
    const source = randomUUID()
    const doubt: Doubt = { source, records: statement.records, nextUri: undefined }
    this.#doubt = doubt
    try {
      await this.#ready().query(statement.sql, { source, signal, onNext: (nextUri) => void (doubt.nextUri = nextUri) })
    } catch (thrown) {
      // The server itself says that the statement failed.
      if (thrown instanceof TrinoQueryFailed) this.#doubt = undefined
      throw thrown
    }
    this.#markStored()
  }

  #toLetterRow(letter: Rec): Rec {
    const row = this.#letterRows.get(letter) ?? toDeadLetterRow(letter, this.#context.clock.now())
    this.#letterRows.set(letter, row)
    return row
  }

  #markStored(): void {
    for (const record of this.#doubt?.records ?? []) this.#stored.add(record)
    this.#doubt = undefined
  }

  /** Goes on with the statement where the connection was lost, or looks for it. A query that the server does not know was never
   *  started. */
  async #settle(signal: AbortSignal | undefined): Promise<void> {
    const doubt = this.#doubt
    if (doubt === undefined) return
    const client = this.#ready()
    if (doubt.nextUri !== undefined && (await this.#isFollowed(client, doubt, signal))) return
    for (;;) {
      const state = await this.#stateOf(client, doubt, signal)
      if (state === 'FINISHED') return this.#markStored()
      if (state === undefined || state === 'FAILED') {
        this.#doubt = undefined
        return
      }
      await this.#context.clock.sleep(lookMs, signal ?? this.#context.signal)
    }
  }

  /** False if the server has forgotten the page. */
  async #isFollowed(client: TrinoClient, doubt: Doubt, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      const { source } = doubt
      await client.follow(doubt.nextUri!, { source, signal, onNext: (nextUri) => void (doubt.nextUri = nextUri) })
      this.#markStored()
      return true
    } catch (thrown) {
      if (thrown instanceof TrinoRejection && (thrown.status === 404 || thrown.status === 410)) return false
      if (!(thrown instanceof TrinoQueryFailed)) throw thrown
      this.#doubt = undefined
      return true
    }
  }

  /** Undefined also if the user may not look: then the statement is repeated, which is at least once. */
  async #stateOf(client: TrinoClient, { source }: Doubt, signal: AbortSignal | undefined): Promise<Json | undefined> {
    const where = `source = ${quoteText(`${client.sourcePrefix}/${source}`)}`
    try {
      return (await client.query(`SELECT state FROM system.runtime.queries WHERE ${where}`, { signal })).rows[0]?.[0]
    } catch (thrown) {
      const error = toTrinoError(thrown, 'look up a statement without an answer')
      if (error.class !== 'config' || !(thrown instanceof TrinoQueryFailed)) throw error
      this.#context.log.warn('cannot look up a statement without an answer, so it is repeated', { error })
      return undefined
    }
  }

  /** A column that is missing may have been added since. */
  async #statementsFor(records: readonly Rec[]): Promise<InsertStatement[]> {
    const client = this.#ready()
    const columns = await this.#columnsFor(client, records)
    try {
      return this.#build(records, columns)
    } catch (thrown) {
      const now = await readColumns(client, this.#place)
      if (now === undefined || [...now.keys()].every((name) => columns.has(name))) throw thrown
      this.#columns = now
      return this.#build(records, now)
    }
  }

  #build(records: readonly Rec[], columns: Columns): InsertStatement[] {
    return buildInserts(records, quotePlace(this.#place), columns, this.#config)
  }

  async #columnsFor(client: TrinoClient, records: readonly Rec[]): Promise<Columns> {
    this.#columns ??= await readColumns(client, this.#place)
    this.#columns ??= await this.#create(client, records)
    if (this.#config.unknownFields !== 'addColumn' || this.#config.rawMode) return this.#columns
    const unknown = this.#fieldsOf(records, this.#columns)
    for (const [name, values] of unknown) await client.query(addColumnText(this.#place, name, values))
    if (unknown.size > 0) this.#columns = (await readColumns(client, this.#place)) ?? this.#columns
    return this.#columns
  }

  async #create(client: TrinoClient, records: readonly Rec[]): Promise<Columns> {
    if (!this.#config.autoCreateTable) throw this.#missing()
    await client.query(this.#createText(records))
    const columns = await readColumns(client, this.#place)
    if (columns === undefined) throw this.#missing()
    return columns
  }

  #createText(records: readonly Rec[]): string {
    if (this.#context.role === 'errors') return createDeadLetterTableText(this.#place)
    const fields = this.#fieldsOf(records, new Map())
    if (!this.#config.rawMode) return createTableText(this.#place, fields)
    const metadata = this.#config.flattenMetadataColumns ? [...fields.keys()].filter((key) => key !== 'data') : undefined
    return createRawTableText(this.#place, metadata)
  }

  #fieldsOf(records: readonly Rec[], columns: ReadonlyMap<string, unknown>): Map<string, Json[]> {
    return collectFields(records, columns, (record, index) => toFields(record, index, this.#config))
  }

  #ready(): TrinoClient {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  #missing(): ConnectorError {
    return new ConnectorError({ class: 'config', type: 'unknown' }, `table ${this.#name} does not exist, and autoCreateTable is off`)
  }

  #withErrorContext<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw toTrinoError(thrown, `${doing} table ${this.#name}`)
    })
  }
}

/** True if the records that were stored before are the leading ones. */
const isPrefix = (batch: readonly Rec[], rest: readonly Rec[]): boolean =>
  rest.every((record, index) => record === batch[batch.length - rest.length + index])

function withDurable(error: ConnectorError, durableRecords: number): ConnectorError {
  const { class: kind, type, retryAfterMs, recordIndex } = error
  return new ConnectorError({ class: kind, type, retryAfterMs, recordIndex, durableRecords }, error.message, { cause: error })
}

/** A dead letter has its id as key; in a table it is a column. */
function toDeadLetterRow(letter: Rec, nowMs: number): Rec {
  const { error, original_message } = getPayload(letter) as JsonObject
  const id = String(Buffer.from(letter.key ?? []))
  const texts = { error: JSON.stringify(error ?? null), original_message: JSON.stringify(original_message ?? null) }
  return withPayload(letter, { id, ...texts, created_at: new Date(nowMs).toISOString() }, false)
}
