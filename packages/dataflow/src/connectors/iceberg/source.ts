// Reads rows that snapshots of an Iceberg table added, in the order of the snapshots. A position is a row of a file of a snapshot; the
// checkpoint holds the last snapshot whose rows are all written.
import type { IcebergSource as IcebergConfig, NessieSource as NessieConfig } from '@brokkr/contract/dataflow/connectors/iceberg.ts'
import { type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import { newMessage } from '../../message/message.ts'
import type { Batch, Budget, Lag, Message, Position, Positions, Rewind, Source, SourceContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { CatalogClient, type LoadedTable } from './catalog-client.ts'
import { configError, toIcebergError } from './errors.ts'
import { findCommitted, listSnapshotsSince } from './history.ts'
import { ObjectStore } from './object-store.ts'
import { type CatalogPlace, tableName, toPlace } from './place.ts'
import { listFiles, readRows } from './scan.ts'
import { checkFormat, type Schema, type Snapshot } from './schema.ts'
import { fromStored } from './values.ts'

type Config = IcebergConfig | NessieConfig

/** p: time of the pass over the whole table, 0 if snapshots are followed · s: snapshot · q: its sequence number · f: index of its file ·
 *  r: row of the file. */
type At = { readonly p: number; readonly s: string; readonly q: number; readonly f: number; readonly r: number }
/** State of the table up to which all rows are written. */
interface Acked {
  readonly snapshotId: string
  readonly sequence: number
  /** Last written row of the snapshot behind it, if that is not complete. */
  readonly partial: At | undefined
}
interface Opened {
  readonly catalog: CatalogClient
  readonly objects: ObjectStore
}

const rowsMax = 1_000
/** All rows are one sequence. */
const partition = 'rows'

export class IcebergTableSource implements Source {
  origin = ''
  readonly #type: 'iceberg' | 'nessie'
  readonly #config: Config
  readonly #context: SourceContext
  readonly #place: CatalogPlace
  readonly #name: string
  #opened: Opened | undefined
  #acked: Acked | undefined
  /** Where reading goes on in this process. */
  #read: Acked | undefined
  /** Snapshots that were emitted to their last row, by that row: acknowledging it completes the snapshot. */
  #completed: { readonly at: At; readonly acked: Acked }[] = []
  /** Snapshots that were listed and may not be written yet; undefined before the first list. */
  #waiting: readonly Snapshot[] | undefined
  /** Table that the state belongs to; undefined until it is read. */
  #uuid: string | undefined

  constructor(type: 'iceberg' | 'nessie', config: Config, context: SourceContext) {
    this.#type = type
    this.#config = config
    this.#context = context
    this.#place = toPlace(config)
    this.#name = tableName(config)
    this.#acked = fromState(context.stored) ?? startOf(config)
    this.#read = this.#acked
    this.#uuid = uuidOf(context.stored)
  }

  async connect(): Promise<void> {
    await this.close()
    const catalog = await CatalogClient.open(this.#place, this.#context)
    this.#opened = { catalog, objects: new ObjectStore(this.#config, catalog, this.#context) }
    const { metadata } = await this.#withErrorContext('open', () => this.#load())
    this.origin = metadata.uuid
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    const { signal, clock } = this.#context
    try {
      while (!signal.aborted) {
        yield* this.#config.incrementalBySnapshot ? this.#readNew(budget) : this.#readWhole(budget, await this.#load())
        if (this.#context.isBounded) return
        await clock.sleep(this.#config.pollIntervalMs, signal)
      }
    } catch (thrown) {
      if (!signal.aborted) throw toIcebergError(thrown, `read table ${this.#name}`)
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const at = upTo.get(partition) as At | undefined
    if (at === undefined) return
    const last = this.#completed.findLast((one) => this.compare(one.at, at) <= 0)
    if (last !== undefined) {
      this.#acked = last.acked
      this.#completed = this.#completed.filter((one) => this.compare(one.at, at) > 0)
    }
    const isComplete = last !== undefined && this.compare(last.at, at) === 0
    this.#acked = { ...(this.#acked ?? { snapshotId: '', sequence: 0 }), partial: isComplete ? undefined : at }
  }

  async lag(): Promise<Lag> {
    if (this.#waiting === undefined) return {}
    const waiting = this.#listUnwritten()
    const messages = waiting.reduce((sum, { summary }) => sum + Number(summary['added-records'] ?? 0), 0)
    const oldest = waiting[0]
    const seconds = oldest === undefined ? 0 : Math.max(0, (this.#context.clock.now() - oldest.timestampMs) / 1000)
    return { messages, seconds }
  }

  async close(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    await opened?.catalog.close()
  }

  compare(left: Position, right: Position): number {
    const [a, b] = [left as At, right as At]
    return a.p - b.p || a.q - b.q || a.f - b.f || a.r - b.r
  }

  describe(positions: Positions): string {
    const at = positions.get(partition) as At | undefined
    return at === undefined ? 'start' : `snapshot ${at.s} file ${at.f} row ${at.r}`
  }

  state(): JsonObject | undefined {
    const acked = this.#acked
    if (acked === undefined || !this.#config.snapshotCheckpoints || !this.#config.incrementalBySnapshot) return undefined
    const { snapshotId, sequence, partial } = acked
    return {
      ...(snapshotId === '' ? {} : { lastAckedSnapshotID: snapshotId, lastAckedSnapshotSequence: sequence }),
      ...(partial === undefined ? {} : { partial }),
      ...(this.#uuid === undefined ? {} : { tableUUID: this.#uuid }),
      ...(this.#place.branch === undefined ? {} : { branch: this.#place.branch }),
      namespace: this.#config.namespace ?? '',
      table: this.#config.table ?? '',
    }
  }

  async rewind(to: Rewind): Promise<void> {
    if (to === 'start') this.#acked = startOf(this.#config)
    else if (to === 'earliest') this.#acked = undefined
    else if (to === 'latest') this.#acked = await this.#withErrorContext('open', async () => toAcked(currentOf(await this.#load())))
    else if (typeof to === 'object' && 'snapshotId' in to) this.#acked = { snapshotId: to.snapshotId, sequence: 0, partial: undefined }
    else throw configError(`a ${this.#type} source is rewound to the start, the earliest or latest snapshot, or to a snapshotId`)
    this.#read = this.#acked
    this.#uuid = undefined
    this.#waiting = undefined
    this.#completed = []
    this.#lastEmitted = undefined
  }

  /** Rows of snapshots behind the last one. Without one, or if the way back to it is lost: all rows of the current snapshot. */
  async *#readNew(budget: Budget): AsyncGenerator<Batch> {
    const table = await this.#load()
    this.#requireSameTable(table)
    const from = this.#read
    if (from === undefined || (from.snapshotId === '' && from.partial === undefined)) yield* this.#readWhole(budget, table)
    else if (from.snapshotId === '') yield* this.#resumeWhole(budget, table, from.partial!)
    else yield* this.#readSince(budget, table, from)
  }

  async *#readSince(budget: Budget, table: LoadedTable, from: Acked): AsyncGenerator<Batch> {
    const { catalog } = this.#ready()
    const snapshots = await listSnapshotsSince(catalog, this.#place, table, from.snapshotId, this.#context.signal)
    if (snapshots === undefined) {
      this.#context.notice('HistoryLost', this.#lostText(from.snapshotId))
      this.#context.log.warn('the history of the table is lost, so all rows are read again', { snapshot: from.snapshotId })
      yield* this.#readWhole(budget, table)
      return
    }
    const listed = new Set(snapshots.map(({ id }) => id))
    this.#waiting = [...this.#listUnwritten().filter(({ id }) => !listed.has(id)), ...snapshots]
    for (const snapshot of snapshots) yield* this.#readSnapshot(budget, table.metadata.schema, snapshot)
  }

  #lostText(id: string): string {
    return `snapshot ${id}, the last one that was read, is no longer in the history of table ${this.#name} (expired, or the table was replaced): all rows of the current snapshot are read again, so rows can be written twice. Keep snapshots longer than the flow may stand still.`
  }

  async *#readSnapshot(budget: Budget, schema: Schema, snapshot: Snapshot): AsyncGenerator<Batch> {
    const operation = snapshot.summary['operation'] ?? 'append'
    if (operation === 'overwrite' || operation === 'delete')
      this.#context.notice(
        'RowsReplaced',
        `snapshot ${snapshot.id} of table ${this.#name} is an ${operation}: the rows that it added are read, and removed rows stay in the sink`,
      )
    // A replace writes existing rows to other files.
    if (operation !== 'replace') yield* this.#readFiles(budget, schema, snapshot, 'added')
    this.#finish(snapshot)
  }

  async *#readWhole(budget: Budget, table: LoadedTable): AsyncGenerator<Batch> {
    const snapshot = currentOf(table)
    if (snapshot === undefined) return
    // Positions of an earlier pass over the same snapshot do not hold.
    if (!this.#config.incrementalBySnapshot) {
      this.#read = undefined
      this.#pass = Math.max(this.#pass + 1, this.#context.clock.now())
    }
    yield* this.#readFiles(budget, table.metadata.schema, snapshot, 'all')
    this.#finish(snapshot)
  }

  /** The first snapshot was not complete: its other rows come before those of later snapshots. */
  async *#resumeWhole(budget: Budget, table: LoadedTable, partial: At): AsyncGenerator<Batch> {
    const snapshot = currentOf(table)
    const first = snapshot?.id === partial.s ? snapshot : await this.#findSnapshot(table, partial.s)
    if (first === undefined) {
      this.#context.notice('HistoryLost', this.#lostText(partial.s))
      this.#read = undefined
      yield* this.#readWhole(budget, table)
      return
    }
    yield* this.#readFiles(budget, table.metadata.schema, first, 'all')
    this.#finish(first)
    yield* this.#readNew(budget)
  }

  async #findSnapshot(table: LoadedTable, id: string): Promise<Snapshot | undefined> {
    const listed = table.metadata.snapshots.get(id)
    if (listed !== undefined || this.#place.branch === undefined) return listed
    return findCommitted(this.#ready().catalog, this.#place, id, this.#context.signal)
  }

  #finish(snapshot: Snapshot): void {
    const acked = toAcked(snapshot)
    const last = this.#lastEmitted
    // A snapshot without rows is complete when the rows before it are written.
    if (last === undefined || this.#isWritten(last)) this.#acked = acked
    else this.#completed = [...this.#completed.filter(({ at }) => this.compare(at, last) !== 0), { at: last, acked: acked! }]
    this.#read = acked
  }
  #lastEmitted: At | undefined
  #pass = 0

  #isWritten(at: At): boolean {
    const { partial, sequence = -1 } = this.#acked ?? {}
    return sequence >= at.q || (partial !== undefined && this.compare(partial, at) >= 0)
  }

  async *#readFiles(budget: Budget, schema: Schema, snapshot: Snapshot, which: 'all' | 'added'): AsyncGenerator<Batch> {
    const { objects } = this.#ready()
    const { signal } = this.#context
    const { data, deletes } = await listFiles(objects, snapshot, which, signal)
    const partial = this.#read?.partial?.s === snapshot.id ? this.#read.partial : undefined
    for (const [index, file] of data.entries()) {
      if (partial !== undefined && index < partial.f) continue
      const start = partial?.f === index ? partial.r + 1 : 0
      const parts = readRows(objects, file, schema, deletes, { start, rowsMax, signal })
      for (;;) {
        await budget.room(signal)
        const part = await parts.next()
        if (part.done === true) break
        const messages = part.value.rows.flatMap((row, offset): Message[] => {
          if (row === undefined) return []
          const at: At = { p: this.#pass, s: snapshot.id, q: snapshot.sequenceNumber, f: index, r: part.value.from + offset }
          return [this.#toMessage(row, schema, at)]
        })
        const last = messages.at(-1)
        if (last === undefined) continue
        this.#lastEmitted = last.position as At
        // After a failure reading goes on behind this row.
        this.#read = { ...(this.#read ?? { snapshotId: '', sequence: 0 }), partial: this.#lastEmitted }
        yield { messages }
      }
    }
  }

  #toMessage(row: Readonly<Record<string, Parameters<typeof fromStored>[1]>>, schema: Schema, at: At): Message {
    const payload: JsonObject = {}
    for (const { name, type } of schema.fields) setKey(payload, name, fromStored(type, row[name]))
    const metadata = { namespace: this.#config.namespace ?? '', table: this.#config.table ?? '', snapshot_id: at.s, operation: 'insert' }
    return newMessage({ raw: Buffer.from(JSON.stringify(payload)), metadata, position: at, partition })
  }

  #listUnwritten(): readonly Snapshot[] {
    const written = this.#acked?.sequence ?? 0
    return (this.#waiting ?? []).filter(({ sequenceNumber }) => sequenceNumber > written)
  }

  /** A new table restarts its sequence numbers, so the state of the former one does not hold. */
  #requireSameTable({ metadata }: LoadedTable): void {
    this.#uuid ??= metadata.uuid
    if (this.#uuid !== metadata.uuid) throw configError('the table was created anew: reset the checkpoint of the flow')
  }

  async #load(): Promise<LoadedTable> {
    const { catalog, objects } = this.#ready()
    const table = await catalog.loadTable(this.#context.signal)
    if (table === undefined) throw configError(`table ${this.#name} does not exist`)
    checkFormat(table.metadata)
    objects.use(table.config)
    return table
  }

  #ready(): Opened {
    if (this.#opened === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#opened
  }

  #withErrorContext<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw toIcebergError(thrown, `${doing} table ${this.#name}`)
    })
  }
}

const currentOf = ({ metadata }: LoadedTable): Snapshot | undefined =>
  metadata.currentSnapshotId === undefined ? undefined : metadata.snapshots.get(metadata.currentSnapshotId)

const toAcked = (snapshot: Snapshot | undefined): Acked | undefined =>
  snapshot === undefined ? undefined : { snapshotId: snapshot.id, sequence: snapshot.sequenceNumber, partial: undefined }

const startOf = ({ startSnapshotID: id }: Config): Acked | undefined =>
  id === undefined ? undefined : { snapshotId: id, sequence: 0, partial: undefined }

function fromState(stored: JsonObject | undefined): Acked | undefined {
  // Other writers of this state have the id as a number.
  const id = stored?.['lastAckedSnapshotID'] as string | number | undefined
  const partial = stored?.['partial'] as At | undefined
  if (id === undefined && partial === undefined) return undefined
  // Without the table's id the number may be of a former table: it must not count rows as written.
  const sequence = uuidOf(stored) === undefined ? 0 : Number(stored?.['lastAckedSnapshotSequence'] ?? 0)
  return { snapshotId: id === undefined ? '' : String(id), sequence, partial }
}

const uuidOf = (stored: JsonObject | undefined): string | undefined => stored?.['tableUUID'] as string | undefined
