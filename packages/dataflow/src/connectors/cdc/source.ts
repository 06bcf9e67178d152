// Change data capture: publication, slot, a snapshot that starts exactly at the slot's position, then the stream. The slot confirms a
// transaction when all its messages and all earlier ones have outcomes.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type pg from 'pg'
import type { Batch, Budget, Lag, Message, Position, Positions, Rewind, Source, SourceContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { clientConfig, connectPostgres } from '../postgresql/client.ts'
import { toPostgresError } from '../postgresql/errors.ts'
import { CdcDecoder, cdcPartition } from './decoder.ts'
import { readInitialRows } from './initial-snapshot.ts'
import { SlotLag } from './lag.ts'
import { type Lsn, lsnText, parseLsn, type Relation } from './pgoutput.ts'
import { ensurePublication } from './publication.ts'
import { type Frame, ReplicationStream } from './replication-stream.ts'
import { applyRewind } from './rewind.ts'
import { checkServer } from './slot.ts'
import { type CdcPosition, compareCdcPositions, printState } from './state.ts'
import { CdcStreamState } from './stream-state.ts'
import { type CapturedTable, readCapturedTables, TableIndex } from './tables.ts'

/** The walsender session prints values with the same settings as the snapshot. */
const sessionOptions = '-c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601 -c extra_float_digits=3 -c bytea_output=hex'

const boundedBeatMs = 250

export class CdcSource implements Source {
  origin = ''
  readonly #config: PostgresqlCdcSource
  readonly #context: SourceContext
  readonly #slot: string
  readonly #publication: string
  readonly #standing: CdcStreamState
  readonly #lag: SlotLag
  #client: pg.Client | undefined
  #snapshotClient: pg.Client | undefined
  #index = new TableIndex([])
  #stream: ReplicationStream | undefined
  #version = 0

  constructor(config: PostgresqlCdcSource, context: SourceContext) {
    this.#config = config
    this.#context = context
    this.#slot = config.slotName ?? ''
    this.#publication = config.publicationName ?? ''
    this.#standing = new CdcStreamState({ now: () => context.clock.now(), changed: () => context.stateChanged() }, context.stored)
    this.#lag = new SlotLag(config, context)
    this.#standing.mustSnapshot = config.snapshotMode === 'always'
  }

  async connect(): Promise<void> {
    await this.close()
    const client = await connectPostgres(this.#config, this.#context)
    this.#client = client
    await withErrorContext('prepare change capture', async () => {
      const { version, systemId } = await checkServer(client)
      this.#version = version
      const tables = await this.#readTables(client)
      const { unlisted, added } = await ensurePublication(client, this.#publication, this.#config, tables)
      this.#standing.forgetTables(added)
      if (unlisted.length > 0)
        this.#context.log.info('publication has unlisted tables', {
          count: unlisted.length,
          tables: unlisted.slice(0, 10),
        })
      this.origin = `${systemId}/${client.database ?? ''}`
    }).catch((thrown: unknown) => this.close().then(() => Promise.reject(thrown)))
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    try {
      const end = this.#context.isBounded ? await this.#walEnd() : undefined
      const parts = { config: this.#config, context: this.#context, client: this.#ready(), standing: this.#standing }
      const replication = () => this.#replicationConfig()
      const openSnapshotClient = () => this.#openSnapshotClient()
      yield* readInitialRows({ ...parts, serverVersion: this.#version, replication, openSnapshotClient }, budget)
      yield* this.#readStream(budget, end)
    } catch (thrown) {
      if (!this.#context.signal.aborted) throw toPostgresError(thrown, `read slot ${this.#slot}`)
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const position = upTo.get(cdcPartition) as CdcPosition | undefined
    if (position !== undefined && this.#standing.committed(position)) this.#stream?.sendStatus()
  }

  async lag(): Promise<Lag> {
    return this.#client === undefined ? {} : withErrorContext('look at the slot', () => this.#lag.read())
  }

  async close(): Promise<void> {
    const [client, snapshotClient, stream] = [this.#client, this.#snapshotClient, this.#stream]
    this.#client = undefined
    this.#snapshotClient = undefined
    this.#stream = undefined
    await stream?.stop()
    await client?.end().catch(() => undefined)
    await snapshotClient?.end().catch(() => undefined)
  }

  compare(left: Position, right: Position): number {
    return compareCdcPositions(left, right)
  }

  describe(positions: Positions): string {
    const at = positions.get(cdcPartition) as CdcPosition | undefined
    if (at === undefined) return lsnText(this.#standing.progress.confirmed)
    return at.l === '' ? `snapshot row ${at.n}` : at.l
  }

  state(): JsonObject | undefined {
    const { state } = this.#standing
    return state === undefined ? undefined : printState(state, { slotName: this.#slot, publicationName: this.#publication })
  }

  async rewind(to: Rewind): Promise<void> {
    this.#standing.setBack(await applyRewind(this.#ready(), this.#slot, this.#standing, to))
  }

  async #walEnd(): Promise<Lsn> {
    const result = await this.#ready().query<{ at: string }>('select pg_current_wal_lsn()::text as at')
    return parseLsn(result.rows[0]!.at)
  }

  /** `end`: end of a bounded run. */
  async *#readStream(budget: Budget, end: Lsn | undefined): AsyncGenerator<Batch> {
    const { signal } = this.#context
    const standing = this.#standing
    standing.progress.reconnect()
    const stream = new ReplicationStream({
      client: await this.#replicationConfig(),
      slot: this.#slot,
      publication: this.#publication,
      from: standing.progress.confirmed,
      heartbeatMs: end === undefined ? this.#config.heartbeatIntervalSeconds * 1000 : boundedBeatMs,
      asksForEnd: end !== undefined,
      confirmed: () => standing.confirmable,
    })
    this.#stream = stream
    const decoder = this.#decoder()
    await stream.start()
    while (!signal.aborted) {
      await budget.room(signal)
      const frames = await stream.next(signal)
      const messages: Message[] = []
      await this.#lookUpTables(frames)
      for (const frame of frames) decoder.take(frame, messages)
      standing.handedOut = decoder.handedOut
      standing.acknowledge()
      if (messages.length > 0) yield { messages }
      if (end !== undefined && !decoder.isInside && frames.some((frame) => frame.kind === 'keepalive' && frame.walEnd >= end)) return
    }
  }

  #decoder(): CdcDecoder {
    const { state, progress, handedOut } = this.#standing
    const database = this.#ready().database ?? ''
    const deps = {
      settings: this.#config,
      database,
      era: state!.era,
      progress,
      findTable: (relation: Relation) => this.#index.find(relation),
      dropped: (reason: string, count: number) => this.#context.dropped(reason, count),
      unlisted: (table: string) => this.#unlisted(table),
    }
    return new CdcDecoder(deps, handedOut)
  }

  #unlisted(table: string): void {
    const text = `publication ${this.#publication} publishes ${table}, which the flow does not list: its changes are dropped and counted`
    this.#context.notice('UnlistedTable', text)
  }

  async #readTables(client: pg.Client): Promise<readonly CapturedTable[]> {
    const tables = await readCapturedTables(client, this.#config.tables)
    this.#standing.tables = tables.map(({ name }) => name)
    this.#index = new TableIndex(tables)
    return tables
  }

  /** A partition can be attached while the stream runs; its rows must not count as those of an unlisted table. */
  async #lookUpTables(frames: readonly Frame[]): Promise<void> {
    const isUnknown = (frame: Frame) =>
      frame.kind === 'data' && frame.message.kind === 'relation' && this.#index.find(frame.message.relation) === undefined
    if (frames.some(isUnknown)) await this.#readTables(this.#ready())
  }

  async #openSnapshotClient(): Promise<pg.Client> {
    const client = await connectPostgres(this.#config, this.#context, { isUnlimited: true })
    this.#snapshotClient = client
    return client
  }

  #ready(): pg.Client {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  async #replicationConfig(): Promise<pg.ClientConfig> {
    return { ...(await clientConfig(this.#config, this.#context, { replication: 'database' })), options: sessionOptions }
  }
}

function withErrorContext<T>(doing: string, work: () => Promise<T>): Promise<T> {
  return work().catch((thrown: unknown) => {
    throw toPostgresError(thrown, doing)
  })
}
