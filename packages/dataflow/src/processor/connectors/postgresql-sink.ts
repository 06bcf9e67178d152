// Writes records to a table: one transaction per batch with its position in it. Columns come from the catalogue and are read again when
// the server says that they changed.
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
import { type Plan, type PlanConfig, planBatch, unknownKeys } from './postgresql-plan.ts'
import {
  forgetPositions,
  knownSources,
  movePositions,
  openPositions,
  type PositionsTable,
  partitionOf,
  sourceName,
  takeOver,
} from './postgresql-positions.ts'
import { RowShape } from './postgresql-rows.ts'
import { type BatchStatements, statementsOf, type WriteConfig } from './postgresql-statements.ts'
import { writeBatch } from './postgresql-write.ts'
import { Prepared } from './prepared.ts'
import { quotedTable, tableParts } from './sql.ts'

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
  readonly #prepared = new Prepared<{ readonly columns: Columns; readonly statements: BatchStatements }>()
  /** Set while nobody knows whether the last transaction was committed. */
  #isUncertain = false

  constructor(config: SinkConfig, context: SinkContext) {
    this.#context = context
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
      if (this.#isUncertain && (await this.#isThere(client, positions))) return
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
      const outcome = await this.#transaction(client, async () => {
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
    const ignored = await this.#transaction(client, async () => {
      await this.#movePositions(client, positions)
      return this.#fill(client, batch)
    })
    if (ignored > 0) this.#context.conflictsIgnored(ignored)
  }

  async #transaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
    await client.query('begin')
    let result: T
    try {
      result = await work()
    } catch (thrown) {
      await client.query('rollback').catch(() => undefined)
      throw thrown
    }
    this.#isUncertain = true
    await client.query('commit')
    this.#isUncertain = false
    return result
  }

  async #fill(client: pg.Client, batch: readonly Rec[]): Promise<number> {
    if (batch.length === 0) return 0
    const columns = await this.#columnsFor(client, batch)
    const prepared = this.#prepared.take(batch)
    if (prepared?.columns === columns) return writeBatch(client, prepared.statements, columns, this.#write)
    const plan = await this.#plan(client, batch, columns)
    const now = this.#columns ?? columns
    return writeBatch(client, statementsOf(plan, now, this.#write), now, this.#write)
  }

  /** A batch that cannot be planned says so when it is written. */
  prepare(batch: readonly Rec[]): void {
    const columns = this.#columns
    if (columns === undefined || this.#config.unknownFields === 'addColumn' || this.#context.role === 'errors') return
    try {
      const plan = planBatch(batch, columns, this.#config, this.#shapes)
      this.#prepared.keep(batch, { columns, statements: statementsOf(plan, columns, this.#write) })
    } catch {
      this.#prepared.keep([], undefined)
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

  async #movePositions(client: pg.Client, positions: Positions): Promise<void> {
    const kept = this.#positions
    if (kept === undefined) return
    const moves = [...positions].map(([partition, position]) => {
      const source = sourceName(this.#context.source.origin, partition)
      return { source, position, epoch: this.#epochs.get(source) ?? this.#context.epoch }
    })
    await movePositions(client, kept, moves)
  }

  /** Whether the batch is in: where positions are kept they tell. */
  async #isThere(client: pg.Client, positions: Positions): Promise<boolean> {
    const kept = this.#positions
    this.#isUncertain = false
    if (kept === undefined || positions.size === 0) return false
    const { origin, compare } = this.#context.source
    const sources = [...positions.keys()].map((partition) => sourceName(origin, partition))
    const found = await client.query<{ source: string; position: string | null }>({
      text: `select source, position::text from ${kept.table} where flow = $1 and source = any($2::text[])`,
      values: [kept.flow, sources],
    })
    const at = new Map(
      found.rows.map(({ source, position }) => [source, position === null ? undefined : (JSON.parse(position) as Position)]),
    )
    return [...positions].every(([partition, position]) => {
      const stored = at.get(sourceName(origin, partition))
      return stored !== undefined && compare.call(this.#context.source, stored, position) >= 0
    })
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
