// Writes records to a table: one transaction per batch with its position, in one round trip if possible. Columns come from the catalog and
// are read again when the server reports a change.
import type { PostgresqlSink as SinkConfig } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { type BatchStatement, type PipelinedClient, type SentBatch, sendBatch } from '@brokkr/postgres'
import type pg from 'pg'
import { getPayload, withPayload } from '../../message/message.ts'
import type { Capabilities, Fault, Partition, Position, Positions, Rec, Sink, SinkContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { PreparedBatch } from '../prepared-batch.ts'
import { connectPipelined, connectPostgres } from './client.ts'
import { type Columns, readColumns } from './columns.ts'
import { CommitTracker } from './commit-tracker.ts'
import { addColumns, createDeadLetterTable, createRawTable, createTable } from './create-table.ts'
import { sqlStateOf, toPostgresError } from './errors.ts'
import { type Plan, type PlanConfig, planBatch, unknownKeys } from './plan.ts'
import {
  forgetPositions,
  listStoredSources,
  MoveRejected,
  moveStatement,
  openPositions,
  type PositionsTable,
  sourceName,
  takeOver,
  toMoveError,
  toPartition,
} from './positions.ts'
import { RowShape } from './rows.ts'
import { quoteTable, splitTableName } from './sql.ts'
import { type BatchStatements, buildStatements, toStatementList, type WriteConfig } from './statements.ts'
import { countIgnored, runStatement, writeBatch } from './write.ts'

interface ReadyBatch {
  readonly columns: Columns
  readonly statements: BatchStatements
}

/** What a transaction commits besides its rows, and how long the caller waits. */
interface Commit {
  readonly positions: Positions
  readonly signal: AbortSignal | undefined
}

export class PostgresSink implements Sink {
  readonly #config: SinkConfig & PlanConfig
  readonly #context: SinkContext
  readonly #name: string
  readonly #write: WriteConfig
  /** Reads the catalog and writes batches that are statements alone. */
  #client: PipelinedClient | undefined
  /** Writes batches step by step: COPY needs a connection without pipelining. Opened at the first such batch. */
  #stepClient: Promise<pg.Client> | undefined
  #columns: Columns | undefined
  #positions: PositionsTable | undefined
  readonly #epochs = new Map<string, number>()
  readonly #shapes = RowShape.empty()
  readonly #prepared = new PreparedBatch<ReadyBatch>()
  /** Resolves when the socket has taken the last batch. */
  #sent: Promise<void> = Promise.resolve()
  readonly #commits: CommitTracker

  constructor(config: SinkConfig, context: SinkContext) {
    this.#context = context
    this.#commits = new CommitTracker(context.source)
    this.#config = context.role === 'errors' ? toDeadLetterConfig(config) : config
    this.#name = config.table ?? ''
    this.#write = { ...this.#config, table: quoteTable(this.#name) }
  }

  async connect(): Promise<Capabilities> {
    await this.close()
    const client = await connectPipelined(this.#config, this.#context)
    this.#client = client
    return this.#withErrorContext('open', async () => {
      this.#columns = await readColumns(client, this.#write.table)
      if (this.#columns === undefined && !this.#config.autoCreateTable) throw this.#missing()
      return this.#openPositions(client)
    }).catch((thrown: unknown) => this.close().then(() => Promise.reject(thrown)))
  }

  async write(records: readonly Rec[], positions: Positions, signal?: AbortSignal): Promise<void> {
    const client = this.#ready()
    const batch = this.#context.role === 'errors' ? records.map(toDeadLetterRow) : records
    const destroy = () => this.#destroy(client)
    signal?.addEventListener('abort', destroy, { once: true })
    try {
      if (await this.#commits.isCommitted(client, this.#positions, positions)) return
      await this.#writeOnce(client, batch, positions, signal).catch(async (thrown: unknown) => {
        // The table changed since its columns were read.
        if (!['42703', '42P01', '42804'].includes(sqlStateOf(thrown))) throw thrown
        this.#columns = await readColumns(client, this.#write.table)
        await this.#writeOnce(client, batch, positions, signal)
      })
    } catch (thrown) {
      if (thrown instanceof MoveRejected && this.#positions !== undefined)
        throw await this.#withErrorContext('read the positions of', () =>
          this.#commits.explainRejection(client, this.#positions!, positions),
        )
      throw toPostgresError(thrown, `write to table ${this.#name}`)
    } finally {
      signal?.removeEventListener('abort', destroy)
    }
  }

  async highWater(partitions?: readonly Partition[]): Promise<Map<Partition, Position>> {
    const table = this.#positions
    if (table === undefined) return new Map()
    const { origin } = this.#context.source
    return this.#withErrorContext('take over the positions of', async () => {
      const client = this.#ready()
      const sources =
        partitions?.map((partition) => sourceName(origin, partition)) ?? (await listStoredSources(client, table, `${origin}/`))
      const positions = await takeOver(client, table, sources, this.#context.epoch)
      for (const [source, { epoch }] of positions) this.#epochs.set(source, epoch)
      this.#commits.setCommitted(new Map([...positions].map(([source, { position }]) => [source, position])), partitions === undefined)
      return new Map(
        [...positions].flatMap(([source, { position }]) => (position === undefined ? [] : [[toPartition(source, origin), position]])),
      )
    })
  }

  async forget(): Promise<void> {
    const table = this.#positions
    if (table === undefined) return
    await this.#withErrorContext('forget the positions of', () => forgetPositions(this.#ready(), table))
    this.#commits.clear()
  }

  async close(): Promise<void> {
    const [client, stepClient] = [this.#client, this.#stepClient]
    this.#client = undefined
    this.#stepClient = undefined
    // `end` would wait for queries in flight, and for the response of a half-open connection.
    client?.destroy()
    stepClient?.then((connected) => connected.end()).catch(() => undefined)
    await client?.end()
  }

  #destroy(client: PipelinedClient): void {
    client.destroy()
    this.#stepClient?.then((connected) => connected.end()).catch(() => undefined)
  }

  /** A connection that could not be opened is tried again with the next batch. */
  #connectForSteps(): Promise<pg.Client> {
    this.#stepClient ??= connectPostgres(this.#config, this.#context).catch((thrown: unknown) => {
      this.#stepClient = undefined
      throw thrown
    })
    return this.#stepClient
  }

  /** Writes each record in a transaction that is rolled back; undefined if it would be accepted. */
  async tryOut(records: readonly Rec[]): Promise<(Fault | undefined)[]> {
    const client = await this.#connectForSteps()
    const outcomes: (Fault | undefined)[] = []
    for (const record of records) {
      const outcome = await this.#transaction(client, { positions: new Map(), signal: undefined }, async () => {
        await this.#fill(client, [record])
        throw rolledBack
      }).catch((thrown: unknown) => (thrown === rolledBack ? undefined : toPostgresError(thrown, `write to table ${this.#name}`)))
      // Objects created in the transaction were rolled back.
      this.#columns = await readColumns(client, this.#write.table)
      outcomes.push(outcome === undefined ? undefined : { type: outcome.type, message: outcome.message })
    }
    return outcomes
  }

  async #openPositions(client: pg.Client): Promise<Capabilities> {
    const { exactlyOnce, upsertMode: isUpsert } = this.#config
    // A repeated dead letter has the same id.
    if (this.#context.role === 'errors') return { exactlyOnce: 'AtLeastOnce', isUpsert: true }
    if (exactlyOnce === 'off') return { exactlyOnce: 'AtLeastOnce', isUpsert }
    const result = await openPositions(client, splitTableName(this.#name).schema)
    if ('table' in result) {
      this.#positions = { table: result.table, flow: this.#context.positionKey }
      return { exactlyOnce: 'PositionInSink', isUpsert }
    }
    if (exactlyOnce === 'required')
      throw new ConnectorError({ class: 'config', type: 'auth_error' }, `exactlyOnce is required and ${result.reason}`)
    return { exactlyOnce: 'Unavailable', reason: result.reason, isUpsert }
  }

  #withErrorContext<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw toPostgresError(thrown, `${doing} table ${this.#name}`)
    })
  }

  #ready(): PipelinedClient {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  #missing(): ConnectorError {
    return new ConnectorError({ class: 'config', type: 'unknown' }, `table ${this.#name} does not exist, and autoCreateTable is off`)
  }

  async #writeOnce(client: PipelinedClient, batch: readonly Rec[], positions: Positions, signal: AbortSignal | undefined): Promise<void> {
    const prepared = this.#takePrepared(batch)
    const statements = prepared === undefined ? undefined : toStatementList(prepared)
    const ignored =
      prepared === undefined || statements === undefined
        ? await this.#inSteps(await this.#connectForSteps(), batch, { positions, signal }, prepared)
        : countIgnored(prepared, await this.#inOneBatch(client, statements, { positions, signal }), this.#write)
    if (ignored > 0) this.#context.conflictsIgnored(ignored)
  }

  /** Rows changed by each statement. */
  async #inOneBatch(client: PipelinedClient, statements: readonly BatchStatement[], commit: Commit): Promise<readonly number[]> {
    const moves = this.#buildMoves(commit.positions)
    let batch: SentBatch | undefined
    const send = (): Promise<void> => {
      batch = sendBatch(client, [...moves, ...statements])
      this.#sent = client.flush()
      return batch.committed
    }
    try {
      await this.#commits.track(commit.positions, send, commit.signal)
      return batch!.counts.slice(moves.length)
    } catch (thrown) {
      throw batch !== undefined && batch.counts.length < moves.length ? toMoveError(thrown) : thrown
    }
  }

  /** Creating tables, adding columns and COPY: each step waits for the previous one. */
  async #inSteps(client: pg.Client, batch: readonly Rec[], commit: Commit, ready?: BatchStatements): Promise<number> {
    return this.#transaction(client, commit, async () => {
      for (const move of this.#buildMoves(commit.positions))
        await runStatement(client, move).catch((thrown: unknown) => {
          throw toMoveError(thrown)
        })
      return this.#fill(client, batch, ready)
    })
  }

  async #transaction<T>(client: pg.Client, { positions, signal }: Commit, work: () => Promise<T>): Promise<T> {
    await client.query('begin')
    try {
      const result = await work()
      await this.#commits.track(positions, () => client.query('commit'), signal)
      return result
    } catch (thrown) {
      // Also after a failed commit: if it was canceled before it ran, the session is still in the transaction.
      await client.query('rollback').catch(() => this.#discardStepClient(client))
      throw thrown
    }
  }

  /** The next batch opens another connection: this one may still be in a transaction. */
  async #discardStepClient(client: pg.Client): Promise<void> {
    const current = this.#stepClient
    if ((await current?.catch(() => undefined)) === client && this.#stepClient === current) this.#stepClient = undefined
    client.end().catch(() => undefined)
  }

  async #fill(client: pg.Client, batch: readonly Rec[], ready?: BatchStatements): Promise<number> {
    if (batch.length === 0) return 0
    const columns = await this.#columnsFor(client, batch)
    if (ready !== undefined) return writeBatch(client, ready, columns, this.#write)
    const plan = await this.#plan(client, batch, columns)
    const now = this.#columns ?? columns
    return writeBatch(client, buildStatements(plan, now, this.#write), now, this.#write)
  }

  /** After the current batch was sent: the server waits for the whole batch, and only a turn of the event loop sends it. */
  prepare(batch: readonly Rec[]): void {
    if (this.#context.role !== 'errors') void this.#sent.then(() => this.#prepared.keep(batch, this.#makeReady(batch)))
  }

  #takePrepared(batch: readonly Rec[]): BatchStatements | undefined {
    const prepared = this.#prepared.take(batch)
    return (prepared?.columns === this.#columns ? prepared : this.#makeReady(batch))?.statements
  }

  /** Undefined while the table must be read, and for a batch that cannot be planned; the error is reported when it is written in steps. */
  #makeReady(batch: readonly Rec[]): ReadyBatch | undefined {
    const columns = this.#columns
    if (columns === undefined || this.#config.unknownFields === 'addColumn') return undefined
    try {
      return { columns, statements: buildStatements(planBatch(batch, columns, this.#config, this.#shapes), columns, this.#write) }
    } catch {
      return undefined
    }
  }

  /** A column may have been added since: only columns missing now are the record's fault. */
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
    if (this.#context.role === 'errors') await createDeadLetterTable(client, table)
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
    const otherColumns = new Set(['data', ...this.#rawKeys()])
    return this.#config.flattenMetadataColumns ? [...fields.keys()].filter((key) => !otherColumns.has(key)) : undefined
  }

  /** None, or one for all of them. */
  #buildMoves(positions: Positions): BatchStatement[] {
    const table = this.#positions
    if (table === undefined || positions.size === 0) return []
    const moves = [...positions].map(([partition, position]) => {
      const source = sourceName(this.#context.source.origin, partition)
      return { source, position, epoch: this.#epochs.get(source) ?? this.#context.epoch, expected: this.#commits.getExpected(source) }
    })
    return [moveStatement(table, moves)]
  }
}

const rolledBack = new Error('rolled back')

/** A dead letter has its id as key; in a table it is a column. */
function toDeadLetterRow(letter: Rec): Rec {
  const { error, original_message } = getPayload(letter) as JsonObject
  const json = { id: String(Buffer.from(letter.key ?? [])), error: error ?? null, original_message: original_message ?? null }
  return withPayload(letter, json, false)
}

/** A dead letter is written once by its id, whatever the flow's settings for that table are. */
const toDeadLetterConfig = (config: SinkConfig): SinkConfig => ({
  ...config,
  upsertMode: false,
  conflictKey: ['id'],
  onConflict: 'ignore',
  deleteMode: 'row',
  rawMode: false,
  unknownFields: 'ignore',
})
