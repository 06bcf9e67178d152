// Change data capture: publication and slot, a snapshot that begins exactly where the slot does, then the stream. The slot is told only
// what has ended: a transaction counts when all its messages and all before it have.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import pg from 'pg'
import { snapshotChange } from './cdc-changes.ts'
import { CdcDecoder, cdcMessage, cdcPartition } from './cdc-decoder.ts'
import { CdcProgress } from './cdc-progress.ts'
import { checkServer, createSlot, ensurePublication, readSlot, resolveTables } from './cdc-slot.ts'
import { beginSnapshot, snapshotRows } from './cdc-snapshot.ts'
import { type CdcPosition, type CdcState, compareCdc, parseState, printState } from './cdc-state.ts'
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
  #client: pg.Client | undefined
  #stream: ReplicationStream | undefined
  #state: CdcState | undefined
  #progress: CdcProgress
  #tables: readonly string[] = []
  #version = 0
  #handedOut: CdcPosition | undefined
  /** Last position of each table of the running snapshot. */
  #ends: { table: string; at: CdcPosition | undefined }[] = []
  /** The last position that ended. */
  #ended: CdcPosition | undefined
  #mustSnapshot: boolean
  #isLagging = false

  constructor(config: PostgresqlCdcSource, context: SourceContext) {
    this.#config = config
    this.#context = context
    this.#slot = config.slotName ?? ''
    this.#publication = config.publicationName ?? ''
    this.#state = parseState(context.stored)
    this.#progress = new CdcProgress(this.#state?.ackedLsn ?? 0n)
    this.#mustSnapshot = config.snapshotMode === 'always'
  }

  async connect(): Promise<void> {
    await this.close()
    const client = await connectPostgres(this.#config, this.#context)
    this.#client = client
    await this.#say('prepare change capture', async () => {
      const { version, systemId } = await checkServer(client)
      this.#version = version
      this.#tables = await resolveTables(client, this.#config.tables)
      await ensurePublication(client, this.#publication, this.#config, this.#tables)
      this.origin = `${systemId}/${client.database ?? ''}`
    }).catch((thrown: unknown) => this.close().then(() => Promise.reject(thrown)))
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    try {
      const end = this.#context.isBounded ? await this.#walEnd() : undefined
      yield* this.#readSnapshot(budget)
      yield* this.#readStream(budget, end)
    } catch (thrown) {
      if (!this.#context.signal.aborted) throw postgresError(thrown, `read slot ${this.#slot}`)
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const position = upTo.get(cdcPartition) as CdcPosition | undefined
    const state = this.#state
    if (position === undefined || state === undefined) return
    if (position.e !== state.era) return
    this.#ended = position
    if (position.l !== '') this.#progress.ended(parseLsn(position.l), position.n)
    this.#completeTables(position)
    this.#acknowledge()
    this.#stream?.sendStatus()
  }

  async lag(): Promise<Lag> {
    const client = this.#client
    if (client === undefined) return {}
    return this.#say('look at the slot', async () => {
      // A connection of its own: the other one may be in the middle of a COPY.
      const own = await connectPostgres(this.#config, this.#context)
      try {
        const found = await own.query<{ retained: string | null; behind: string | null }>({
          text: `select pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::text as retained, pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::text as behind
            from pg_replication_slots where slot_name = $1`,
          values: [this.#slot],
        })
        const row = found.rows[0]
        if (row === undefined) return {}
        this.#warn(Number(row.retained ?? 0))
        return { bytes: Number(row.behind ?? 0) }
      } finally {
        await own.end()
      }
    })
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
    if (at === undefined) return lsnText(this.#progress.confirmed)
    return at.l === '' ? `snapshot row ${at.n}` : at.l
  }

  state(): JsonObject | undefined {
    return this.#state === undefined ? undefined : printState(this.#state, { slotName: this.#slot, publicationName: this.#publication })
  }

  async rewind(to: Rewind): Promise<void> {
    if (to === 'start') this.#state = undefined
    else if (typeof to === 'object' && 'resnapshot' in to) await this.#rewindTables(to.resnapshot)
    else if (typeof to === 'object' && 'lsn' in to) await this.#rewindLsn(to.lsn)
    else throw refuse('a postgresql-cdc source is rewound to the start, to an lsn, or by a new snapshot of tables')
    this.#handedOut = undefined
    this.#progress = new CdcProgress(this.#state?.ackedLsn ?? 0n)
    this.#context.stateChanged()
  }

  async #rewindTables(names: readonly string[]): Promise<void> {
    const again = await resolveTables(this.#ready(), names)
    const foreign = again.find((name) => !this.#tables.includes(name))
    if (foreign !== undefined) throw refuse(`table ${foreign} is not one of this flow`)
    const slot = await readSlot(this.#ready(), this.#slot)
    const state = this.#state ?? this.#newState(slot?.confirmed ?? 0n)
    this.#state = { ...state, phase: 'snapshot', completed: this.#tables.filter((name) => !again.includes(name)) }
  }

  async #rewindLsn(text: string): Promise<void> {
    const lsn = parseLsn(text)
    const slot = await readSlot(this.#ready(), this.#slot)
    if (slot === undefined) throw refuse(`slot ${this.#slot} does not exist: there is nothing to rewind to`)
    if (lsn < slot.confirmed)
      throw refuse(`the slot begins at ${lsnText(slot.confirmed)} and the server keeps nothing before it: take a new snapshot instead`)
    this.#state = { ...(this.#state ?? this.#newState(lsn)), phase: 'streaming', ackedLsn: lsn }
  }

  async #walEnd(): Promise<Lsn> {
    const found = await this.#ready().query<{ at: string }>('select pg_current_wal_lsn()::text as at')
    return parseLsn(found.rows[0]!.at)
  }

  #newState(at: Lsn): CdcState {
    return { phase: 'snapshot', era: this.#newEra(), ackedLsn: at, snapshotLsn: at, completed: [] }
  }

  #newEra(): number {
    return Math.max(this.#context.clock.now(), (this.#state?.era ?? 0) + 1)
  }

  async *#readSnapshot(budget: Budget): AsyncGenerator<Batch> {
    const client = this.#ready()
    const slot = await this.#checkedSlot(client)
    const isNew = slot === undefined
    if (!isNew && this.#state?.phase === 'streaming' && !this.#mustSnapshot) return
    const replication = isNew ? await this.#replicationClient() : undefined
    try {
      const made = replication === undefined ? undefined : await createSlot(replication, this.#slot, this.#version)
      this.#beginEra(made?.at ?? slot?.confirmed ?? 0n, isNew)
      if (this.#config.snapshotMode === 'never') this.#finishSnapshot()
      else yield* this.#snapshotTables(client, made?.snapshot, budget)
    } finally {
      await replication?.end().catch(() => undefined)
    }
  }

  async #checkedSlot(client: pg.Client): Promise<{ confirmed: Lsn } | undefined> {
    const slot = await readSlot(client, this.#slot)
    if (slot?.isLost === true)
      throw refuse(`slot ${this.#slot} has lost its WAL (max_slot_wal_keep_size): drop it and reset the checkpoint for a new snapshot`)
    if (slot !== undefined) return slot
    if (!this.#config.createSlotIfNotExists) throw refuse(`slot ${this.#slot} does not exist, and createSlotIfNotExists is off`)
    if (this.#state?.phase === 'streaming')
      this.#context.notice(
        'SlotGone',
        `slot ${this.#slot} was dropped: changes since ${lsnText(this.#state.ackedLsn)} are unknown, and a new snapshot begins`,
      )
    return undefined
  }

  /** A slot that is new knows nothing of what was read before it; an unfinished snapshot goes on with the tables that lack. */
  #beginEra(at: Lsn, isNew: boolean): void {
    const isGoingOn = !isNew && this.#state?.phase === 'snapshot' && !this.#mustSnapshot
    const completed = isGoingOn ? this.#state!.completed : []
    this.#state = { ...this.#newState(at), completed, snapshotLsn: isGoingOn ? this.#state!.snapshotLsn : at }
    this.#progress = new CdcProgress(at)
    this.#handedOut = undefined
    this.#ended = undefined
    this.#ends = []
    this.#mustSnapshot = false
    this.#context.stateChanged()
  }

  async *#snapshotTables(client: pg.Client, snapshot: string | undefined, budget: Budget): AsyncGenerator<Batch> {
    await beginSnapshot(client, snapshot)
    const { era, completed, snapshotLsn } = this.#state!
    const place = { lsn: lsnText(snapshotLsn), isSnapshot: true, database: client.database ?? '' }
    let number = 0
    let last: CdcPosition | undefined
    for (const table of this.#tables.filter((name) => !completed.includes(name))) {
      await budget.room(this.#context.signal)
      for await (const { relation, rows } of snapshotRows(client, table)) {
        const messages = rows.map((row): Message => {
          last = { e: era, l: '', n: number }
          number += 1
          return cdcMessage(snapshotChange(relation, row, this.#config, place), last)
        })
        yield { messages }
        await budget.room(this.#context.signal)
      }
      this.#ends.push({ table, at: last })
      // The last row may have ended before we knew that it was the last; a table without rows ends with what came before it.
      this.#completeTables(this.#ended)
    }
    await client.query('commit')
    if (this.#ends.length === 0) this.#finishSnapshot()
  }

  /** A table is done when its last row has ended, not when it was read. */
  #completeTables(upTo: CdcPosition | undefined): void {
    const state = this.#state
    if (state === undefined || state.phase !== 'snapshot' || this.#ends.length === 0) return
    const done = this.#ends
      .filter(({ at }) => at === undefined || (upTo !== undefined && compareCdc(at, upTo) <= 0))
      .map(({ table }) => table)
    const completed = [...new Set([...state.completed, ...done])]
    if (completed.length === state.completed.length) return
    this.#state = { ...state, completed }
    if (this.#tables.every((table) => completed.includes(table))) this.#finishSnapshot()
    else this.#context.stateChanged()
  }

  #finishSnapshot(): void {
    this.#state = { ...this.#state!, phase: 'streaming', completed: this.#tables }
    this.#context.stateChanged()
  }

  /** `end`: where a bounded run is over. */
  async *#readStream(budget: Budget, end: Lsn | undefined): AsyncGenerator<Batch> {
    const { signal } = this.#context
    const stream = new ReplicationStream({
      client: await this.#replicationConfig(),
      slot: this.#slot,
      publication: this.#publication,
      from: this.#progress.confirmed,
      heartbeatMs: end === undefined ? this.#config.heartbeatIntervalSeconds * 1000 : boundedBeatMs,
      asksForEnd: end !== undefined,
      confirmed: () => this.#confirmable(),
    })
    this.#stream = stream
    const decoder = this.#decoder()
    await stream.start()
    while (!signal.aborted) {
      await budget.room(signal)
      const frames = await stream.next(signal)
      const messages = frames.flatMap((frame) => decoder.take(frame))
      this.#handedOut = decoder.handedOut
      this.#acknowledge()
      if (messages.length > 0) yield { messages }
      if (end !== undefined && !decoder.isInside && frames.some((frame) => frame.kind === 'keepalive' && frame.walEnd >= end)) return
    }
  }

  #decoder(): CdcDecoder {
    const deps = {
      settings: this.#config,
      database: this.#ready().database ?? '',
      tables: this.#tables,
      era: this.#state!.era,
      progress: this.#progress,
      dropped: (reason: string, count: number) => this.#context.dropped(reason, count),
    }
    return new CdcDecoder(deps, this.#handedOut)
  }

  /** While rows of the snapshot are open the slot stays where it is: after a crash it must still know all that came since. */
  #confirmable(): Lsn {
    return this.#state?.phase === 'streaming' ? this.#progress.confirmed : (this.#state?.ackedLsn ?? 0n)
  }

  #acknowledge(): void {
    const state = this.#state
    if (state?.phase !== 'streaming' || this.#progress.confirmed <= state.ackedLsn) return
    this.#state = { ...state, ackedLsn: this.#progress.confirmed }
  }

  #warn(retained: number): void {
    const isLagging = retained > this.#config.slotLagWarningBytes
    if (isLagging && !this.#isLagging) this.#context.notice('SlotLag', `slot ${this.#slot} keeps ${retained} bytes of WAL on the server`)
    this.#isLagging = isLagging
  }

  #ready(): pg.Client {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  async #replicationConfig(): Promise<pg.ClientConfig> {
    return { ...(await clientConfig(this.#config, this.#context, { replication: 'database' })), options: sessionOptions }
  }

  async #replicationClient(): Promise<pg.Client> {
    const client = new pg.Client(await this.#replicationConfig())
    client.on('error', () => undefined)
    await client.connect()
    return client
  }

  #say<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw postgresError(thrown, doing)
    })
  }
}

const refuse = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)
