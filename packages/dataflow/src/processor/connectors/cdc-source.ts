// Change data capture: publication and slot, a snapshot that begins exactly where the slot does, then the stream. The slot is told only
// what has ended: a transaction counts when all its messages and all before it have.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type pg from 'pg'
import { readBeginning } from './cdc-begin.ts'
import { CdcDecoder, cdcPartition } from './cdc-decoder.ts'
import { SlotLag } from './cdc-lag.ts'
import { rewound } from './cdc-rewind.ts'
import { checkServer, ensurePublication, resolveTables } from './cdc-slot.ts'
import { CdcStanding } from './cdc-standing.ts'
import { type CdcPosition, compareCdc, printState } from './cdc-state.ts'
import type { Batch, Budget, Lag, Message, Position, Positions, Rewind, Source, SourceContext } from './connector.ts'
import { ConnectorError } from './connector.ts'
import { type Lsn, lsnText, parseLsn } from './pgoutput.ts'
import { clientConfig, connectPostgres } from './postgresql-client.ts'
import { postgresError } from './postgresql-errors.ts'
import { ReplicationStream } from './replication-stream.ts'

/** The walsender's session has to print values as ours does. */
const sessionOptions = '-c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601 -c extra_float_digits=3 -c bytea_output=hex'

const boundedBeatMs = 250

export class CdcSource implements Source {
  origin = ''
  readonly #config: PostgresqlCdcSource
  readonly #context: SourceContext
  readonly #slot: string
  readonly #publication: string
  readonly #standing: CdcStanding
  readonly #lag: SlotLag
  #client: pg.Client | undefined
  #stream: ReplicationStream | undefined
  #version = 0

  constructor(config: PostgresqlCdcSource, context: SourceContext) {
    this.#config = config
    this.#context = context
    this.#slot = config.slotName ?? ''
    this.#publication = config.publicationName ?? ''
    this.#standing = new CdcStanding({ now: () => context.clock.now(), changed: () => context.stateChanged() }, context.stored)
    this.#lag = new SlotLag(config, context)
    this.#standing.mustSnapshot = config.snapshotMode === 'always'
  }

  async connect(): Promise<void> {
    await this.close()
    const client = await connectPostgres(this.#config, this.#context)
    this.#client = client
    await said('prepare change capture', async () => {
      const { version, systemId } = await checkServer(client)
      this.#version = version
      this.#standing.tables = await resolveTables(client, this.#config.tables)
      await ensurePublication(client, this.#publication, this.#config, this.#standing.tables)
      this.origin = `${systemId}/${client.database ?? ''}`
    }).catch((thrown: unknown) => this.close().then(() => Promise.reject(thrown)))
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    try {
      const end = this.#context.isBounded ? await this.#walEnd() : undefined
      const parts = { config: this.#config, context: this.#context, client: this.#ready(), standing: this.#standing }
      const replication = () => this.#replicationConfig()
      yield* readBeginning({ ...parts, serverVersion: this.#version, replication }, budget)
      yield* this.#readStream(budget, end)
    } catch (thrown) {
      if (!this.#context.signal.aborted) throw postgresError(thrown, `read slot ${this.#slot}`)
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const position = upTo.get(cdcPartition) as CdcPosition | undefined
    if (position !== undefined && this.#standing.committed(position)) this.#stream?.sendStatus()
  }

  async lag(): Promise<Lag> {
    return this.#client === undefined ? {} : said('look at the slot', () => this.#lag.read())
  }

  async close(): Promise<void> {
    const [client, stream] = [this.#client, this.#stream]
    this.#client = undefined
    this.#stream = undefined
    await stream?.stop()
    await client?.end().catch(() => undefined)
  }

  compare(left: Position, right: Position): number {
    return compareCdc(left, right)
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
    this.#standing.setBack(await rewound(this.#ready(), this.#slot, this.#standing, to))
  }

  async #walEnd(): Promise<Lsn> {
    const found = await this.#ready().query<{ at: string }>('select pg_current_wal_lsn()::text as at')
    return parseLsn(found.rows[0]!.at)
  }

  /** `end`: where a bounded run is over. */
  async *#readStream(budget: Budget, end: Lsn | undefined): AsyncGenerator<Batch> {
    const { signal } = this.#context
    const standing = this.#standing
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
      for (const frame of frames) decoder.take(frame, messages)
      standing.handedOut = decoder.handedOut
      standing.acknowledge()
      if (messages.length > 0) yield { messages }
      if (end !== undefined && !decoder.isInside && frames.some((frame) => frame.kind === 'keepalive' && frame.walEnd >= end)) return
    }
  }

  #decoder(): CdcDecoder {
    const { tables, state, progress, handedOut } = this.#standing
    const dropped = (reason: string, count: number) => this.#context.dropped(reason, count)
    const database = this.#ready().database ?? ''
    return new CdcDecoder({ settings: this.#config, database, tables, era: state!.era, progress, dropped }, handedOut)
  }

  #ready(): pg.Client {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  async #replicationConfig(): Promise<pg.ClientConfig> {
    return { ...(await clientConfig(this.#config, this.#context, { replication: 'database' })), options: sessionOptions }
  }
}

function said<T>(doing: string, work: () => Promise<T>): Promise<T> {
  return work().catch((thrown: unknown) => {
    throw postgresError(thrown, doing)
  })
}
