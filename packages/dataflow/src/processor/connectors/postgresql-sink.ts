// Writes records to a table: one transaction per batch with its position in it, in one trip to the server where it can be. Columns come
// from the catalogue and are read again when the server says that they changed.
import type { PostgresqlSink as SinkConfig } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type pg from 'pg'
import { payloadOf, withPayload } from '../message.ts'
import type { Capabilities, Fault, Partition, Position, Positions, Rec, Sink, SinkContext } from './connector.ts'
import { ConnectorError } from './connector.ts'
import { connectPostgres } from './postgresql-client.ts'
import { type Columns, readColumns } from './postgresql-columns.ts'
import { addColumns, createLetterTable, createRawTable, createTable } from './postgresql-create.ts'
import { postgresError, sqlStateOf } from './postgresql-errors.ts'
import { Outcome } from './postgresql-outcome.ts'
import { type Plan, type PlanConfig, planBatch, unknownKeys } from './postgresql-plan.ts'
import {
  forgetPositions,
  knownSources,
  moveError,
  moveStatement,
  openPositions,
  type PositionsTable,
  partitionOf,
  sourceName,
  takeOver,
} from './postgresql-positions.ts'
import { RowShape } from './postgresql-rows.ts'
import { type BatchStatements, inStatements, statementsOf, type WriteConfig } from './postgresql-statements.ts'
import { type Statement, Trip } from './postgresql-trip.ts'
import { ignoredIn, runStatement, writeBatch } from './postgresql-write.ts'
import { Prepared } from './prepared.ts'
import { quotedTable, tableParts } from './sql.ts'

interface ReadyBatch {
  readonly columns: Columns
  readonly statements: BatchStatements
}

export class PostgresSink implements Sink {
  readonly #config: SinkConfig & PlanConfig
  readonly #context: SinkContext
  readonly #name: string
  readonly #write: WriteConfig
  #client: pg.Client | undefined
  #columns: Columns | undefined
  #positions: PositionsTable | undefined
  readonly #epochs = new Map<string, number>()
  readonly #shapes = RowShape.empty()
  readonly #prepared = new Prepared<ReadyBatch>()
  /** Resolves when the last batch has left this process. */
  #sent: Promise<void> = Promise.resolve()
  readonly #outcome: Outcome

  constructor(config: SinkConfig, context: SinkContext) {
    this.#context = context
    this.#outcome = new Outcome(context.source)
    this.#config = context.role === 'errors' ? letterConfig(config) : config
    this.#name = config.table ?? ''
    this.#write = { ...this.#config, table: quotedTable(this.#name) }
  }

  async connect(): Promise<Capabilities> {
    await this.close()
    const client = await connectPostgres(this.#config, this.#context)
    this.#client = client
    return this.#say('open', async () => {
      this.#columns = await readColumns(client, this.#write.table)
      if (this.#columns === undefined && !this.#config.autoCreateTable) throw this.#missing()
      return this.#openPositions(client)
    }).catch((thrown: unknown) => this.close().then(() => Promise.reject(thrown)))
  }

  async write(given: readonly Rec[], positions: Positions, signal?: AbortSignal): Promise<void> {
    const client = this.#ready()
    const batch = this.#context.role === 'errors' ? given.map(letterRow) : given
    const destroy = () => void client.end()
    signal?.addEventListener('abort', destroy, { once: true })
    try {
      if (await this.#outcome.isIn(client, this.#positions, positions)) return
      await this.#writeOnce(client, batch, positions).catch(async (thrown: unknown) => {
        // The table changed since its columns were read.
        if (!['42703', '42P01', '42804'].includes(sqlStateOf(thrown))) throw thrown
        this.#columns = await readColumns(client, this.#write.table)
        await this.#writeOnce(client, batch, positions)
      })
    } catch (thrown) {
      throw postgresError(thrown, `write to table ${this.#name}`)
    } finally {
      signal?.removeEventListener('abort', destroy)
    }
  }

  async highWater(partitions?: readonly Partition[]): Promise<Map<Partition, Position>> {
    const kept = this.#positions
    if (kept === undefined) return new Map()
    const { origin } = this.#context.source
    return this.#say('take over the positions of', async () => {
      const client = this.#ready()
      const sources = partitions?.map((partition) => sourceName(origin, partition)) ?? (await knownSources(client, kept, `${origin}/`))
      const taken = await takeOver(client, kept, sources, this.#context.epoch)
      for (const [source, { epoch }] of taken) this.#epochs.set(source, epoch)
      return new Map(
        [...taken].flatMap(([source, { position }]) => (position === undefined ? [] : [[partitionOf(source, origin), position]])),
      )
    })
  }

  async forget(): Promise<void> {
    const kept = this.#positions
    if (kept !== undefined) await this.#say('forget the positions of', () => forgetPositions(this.#ready(), kept))
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => undefined)
  }

  /** Each record in a transaction that is rolled back; undefined where it would be taken. */
  async tryOut(records: readonly Rec[]): Promise<(Fault | undefined)[]> {
    const client = this.#ready()
    const outcomes: (Fault | undefined)[] = []
    for (const record of records) {
      const outcome = await this.#transaction(client, new Map(), async () => {
        await this.#fill(client, [record])
        throw rolledBack
      }).catch((thrown: unknown) => (thrown === rolledBack ? undefined : postgresError(thrown, `write to table ${this.#name}`)))
      // What was made in the transaction is gone with it.
      this.#columns = await readColumns(client, this.#write.table)
      outcomes.push(outcome === undefined ? undefined : { type: outcome.type, message: outcome.message })
    }
    return outcomes
  }

  async #openPositions(client: pg.Client): Promise<Capabilities> {
    const { exactlyOnce, upsertMode: isUpsert } = this.#config
    // A letter that comes again is one by its id.
    if (this.#context.role === 'errors') return { exactlyOnce: 'AtLeastOnce', isUpsert: true }
    if (exactlyOnce === 'off') return { exactlyOnce: 'AtLeastOnce', isUpsert }
    const opened = await openPositions(client, tableParts(this.#name).schema)
    if ('table' in opened) {
      this.#positions = { table: opened.table, flow: this.#context.positionKey }
      return { exactlyOnce: 'PositionInSink', isUpsert }
    }
    if (exactlyOnce === 'required')
      throw new ConnectorError({ class: 'config', type: 'auth_error' }, `exactlyOnce is required and ${opened.reason}`)
    return { exactlyOnce: 'Unavailable', reason: opened.reason, isUpsert }
  }

  #say<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw postgresError(thrown, `${doing} table ${this.#name}`)
    })
  }

  #ready(): pg.Client {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  #missing(): ConnectorError {
    return new ConnectorError({ class: 'config', type: 'unknown' }, `table ${this.#name} does not exist, and autoCreateTable is off`)
  }

  async #writeOnce(client: pg.Client, batch: readonly Rec[], positions: Positions): Promise<void> {
    const ready = this.#readyOf(batch)
    const statements = ready === undefined ? undefined : inStatements(ready)
    const ignored =
      ready === undefined || statements === undefined
        ? await this.#inSteps(client, batch, positions, ready)
        : ignoredIn(ready, await this.#inOneTrip(client, statements, positions), this.#write)
    if (ignored > 0) this.#context.conflictsIgnored(ignored)
  }

  /** Rows that each of the statements changed. */
  async #inOneTrip(client: pg.Client, statements: readonly Statement[], positions: Positions): Promise<readonly number[]> {
    const moves = this.#movesOf(positions)
    const trip = new Trip([...moves, ...statements])
    this.#sent = trip.sent
    await this.#outcome
      .of(positions, () => trip.run(client))
      .catch((thrown: unknown) => {
        throw trip.counts.length < moves.length ? moveError(thrown) : thrown
      })
    return trip.counts.slice(moves.length)
  }

  /** Tables to make, columns to add, rows by COPY: each step waits for the one before. */
  async #inSteps(client: pg.Client, batch: readonly Rec[], positions: Positions, ready?: BatchStatements): Promise<number> {
    return this.#transaction(client, positions, async () => {
      for (const move of this.#movesOf(positions))
        await runStatement(client, move).catch((thrown: unknown) => {
          throw moveError(thrown)
        })
      return this.#fill(client, batch, ready)
    })
  }

  async #transaction<T>(client: pg.Client, positions: Positions, work: () => Promise<T>): Promise<T> {
    await client.query('begin')
    let result: T
    try {
      result = await work()
    } catch (thrown) {
      await client.query('rollback').catch(() => undefined)
      throw thrown
    }
    await this.#outcome.of(positions, () => client.query('commit'))
    return result
  }

  async #fill(client: pg.Client, batch: readonly Rec[], ready?: BatchStatements): Promise<number> {
    if (batch.length === 0) return 0
    const columns = await this.#columnsFor(client, batch)
    if (ready !== undefined) return writeBatch(client, ready, columns, this.#write)
    const plan = await this.#plan(client, batch, columns)
    const now = this.#columns ?? columns
    return writeBatch(client, statementsOf(plan, now, this.#write), now, this.#write)
  }

  /** Not before the batch under way has left: the server waits for the whole of it, and only a turn of the event loop moves it on. */
  prepare(batch: readonly Rec[]): void {
    if (this.#context.role !== 'errors') void this.#sent.then(() => this.#prepared.keep(batch, this.#makeReady(batch)))
  }

  #readyOf(batch: readonly Rec[]): BatchStatements | undefined {
    const made = this.#prepared.take(batch)
    return (made?.columns === this.#columns ? made : this.#makeReady(batch))?.statements
  }

  /** Undefined while the table has to be looked at, and for a batch that cannot be planned: why, is said when it is written in steps. */
  #makeReady(batch: readonly Rec[]): ReadyBatch | undefined {
    const columns = this.#columns
    if (columns === undefined || this.#config.unknownFields === 'addColumn') return undefined
    try {
      return { columns, statements: statementsOf(planBatch(batch, columns, this.#config, this.#shapes), columns, this.#write) }
    } catch {
      return undefined
    }
  }

  /** A column may have been added since: only what the table of this moment lacks is the record's fault. */
  async #plan(client: pg.Client, batch: readonly Rec[], columns: Columns): Promise<Plan> {
    try {
      return planBatch(batch, columns, this.#config, this.#shapes)
    } catch (thrown) {
      const now = await readColumns(client, this.#write.table)
      if (now === undefined || [...now.keys()].every((name) => columns.has(name))) throw thrown
      this.#columns = now
      return planBatch(batch, now, this.#config, this.#shapes)
    }
  }

  async #columnsFor(client: pg.Client, batch: readonly Rec[]): Promise<Columns> {
    this.#columns ??= await readColumns(client, this.#write.table)
    if (this.#columns === undefined) await this.#create(client, batch)
    if (this.#columns === undefined) throw this.#missing()
    if (this.#config.unknownFields === 'addColumn') {
      const unknown = unknownKeys(batch, this.#columns, this.#config)
      if (unknown.size > 0) {
        await addColumns(client, this.#write.table, unknown)
        this.#columns = (await readColumns(client, this.#write.table)) ?? this.#columns
      }
    }
    return this.#columns
  }

  async #create(client: pg.Client, batch: readonly Rec[]): Promise<void> {
    if (!this.#config.autoCreateTable) throw this.#missing()
    const { table } = this.#write
    if (this.#context.role === 'errors') await createLetterTable(client, table)
    else {
      const fields = unknownKeys(batch, new Map(), this.#config)
      if (this.#config.rawMode) await createRawTable(client, table, this.#rawKeys(), this.#rawMetadata(fields))
      else await createTable(client, { ...this.#config, table }, fields, batch.length)
    }
    this.#columns = await readColumns(client, table)
  }

  #rawKeys(): readonly string[] {
    return this.#config.upsertMode ? this.#config.conflictKey : []
  }

  #rawMetadata(fields: ReadonlyMap<string, unknown>): string[] | undefined {
    const known = new Set(['data', ...this.#rawKeys()])
    return this.#config.flattenMetadataColumns ? [...fields.keys()].filter((key) => !known.has(key)) : undefined
  }

  /** None, or one for all of them. */
  #movesOf(positions: Positions): Statement[] {
    const kept = this.#positions
    if (kept === undefined || positions.size === 0) return []
    const moves = [...positions].map(([partition, position]) => {
      const source = sourceName(this.#context.source.origin, partition)
      return { source, position, epoch: this.#epochs.get(source) ?? this.#context.epoch }
    })
    return [moveStatement(kept, moves)]
  }
}

const rolledBack = new Error('rolled back')

/** A letter has its id as key; in a table that is a column of its own. */
function letterRow(letter: Rec): Rec {
  const { error, original_message } = payloadOf(letter) as JsonObject
  const json = { id: String(Buffer.from(letter.key ?? [])), error: error ?? null, original_message: original_message ?? null }
  return withPayload(letter, json, false)
}

/** A letter is written once by its id, whatever the flow's own settings for that table are. */
const letterConfig = (config: SinkConfig): SinkConfig => ({
  ...config,
  upsertMode: false,
  conflictKey: ['id'],
  onConflict: 'ignore',
  deleteMode: 'row',
  rawMode: false,
  unknownFields: 'ignore',
})
