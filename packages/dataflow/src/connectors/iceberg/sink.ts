// Appends records to an Iceberg table: Parquet files, then one commit per batch that also moves the flow's positions. A commit without an
// answer is looked up in the table before its records are written again.
import { randomUUID } from 'node:crypto'
import type { IcebergSink as IcebergConfig, NessieSink as NessieConfig } from '@brokkr/contract/dataflow/connectors/iceberg.ts'
import type { Json, JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { randomBetween } from '@brokkr/runtime/backoff.ts'
import { getPayload, withPayload } from '../../message/message.ts'
import { collectFields } from '../column-values.ts'
import type { Capabilities, Fault, Partition, Position, Positions, Rec, Sink, SinkContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { type CommitTexts, commitUpload, emptyUpload, removeFiles, type Stores, type Upload, uploadBatch } from './append.ts'
import { CatalogClient, type LoadedTable, missingTable } from './catalog-client.ts'
import { IcebergRejection, isUnknownOutcome, toIcebergError } from './errors.ts'
import { ObjectStore } from './object-store.ts'
import { parsePartitionBy, toPartitionColumns } from './partition-values.ts'
import { tableName, toPlace } from './place.ts'
import {
  judgeMoves,
  listPositions,
  type Marker,
  type Move,
  markerName,
  positionsText,
  printMarker,
  readMarker,
  sourceName,
  withBatch,
  withForgotten,
  withMoved,
  withTakenOver,
} from './positions.ts'
import { buildRows, isRawTable, type RowConfig, toFields } from './rows.ts'
import { checkFormat, columnsOf, deadLetterFields, type Field, type TableMetadata, textFields, toNewFields } from './schema.ts'

type Config = IcebergConfig | NessieConfig

/** A commit without an answer, of this process. */
interface Doubt {
  readonly upload: Upload
  readonly moves: readonly Move[]
}

/** Commits that other writers may win in a row. */
const conflictsMax = 50
const toWaitMs = (conflicts: number): number => randomBetween(0, 100 * Math.min(conflicts + 1, 20))

export class IcebergTableSink implements Sink {
  readonly #config: Config
  readonly #context: SinkContext
  readonly #name: string
  readonly #key: string
  readonly #marker: string
  #stores: Stores | undefined
  #keepsPositions = false
  readonly #epochs = new Map<string, number>()
  /** Positions that this process read or wrote last. */
  readonly #known = new Map<string, Position>()
  #doubts: Doubt[] = []
  readonly #stored = new WeakSet<Rec>()
  /** Row of each dead letter: a repeated attempt must find that its row is stored. */
  readonly #letterRows = new WeakMap<Rec, Rec>()

  constructor(config: Config, context: SinkContext) {
    this.#config = context.role === 'errors' ? { ...config, rawMode: false, unknownFields: 'ignore' } : config
    this.#context = context
    this.#name = tableName(config)
    this.#key = `${context.positionKey}${context.role === 'errors' ? '!errors' : ''}`
    this.#marker = markerName(this.#key)
  }

  async connect(): Promise<Capabilities> {
    await this.close()
    const { catalog, objects } = await this.#open()
    return this.#withErrorContext('open', async () => {
      const table = await catalog.loadTable(this.#context.signal)
      if (table === undefined && !this.#config.autoCreateTable) throw missingTable(this.#name)
      if (table !== undefined) {
        objects.use(table.config)
        checkFormat(table.metadata)
        const { specs, defaultSpecId, schema } = table.metadata
        toPartitionColumns(specs.find((spec) => spec['spec-id'] === defaultSpecId)?.fields ?? [], schema)
      }
      this.#keepsPositions = this.#context.role !== 'errors' && this.#config.exactlyOnce !== 'off'
      return { exactlyOnce: this.#keepsPositions ? 'SnapshotSummary' : 'AtLeastOnce', isUpsert: false }
    })
  }

  async write(records: readonly Rec[], positions: Positions, signal?: AbortSignal): Promise<void> {
    // A dead letter is written with its own time: the table has no default.
    const batch = this.#context.role === 'errors' ? records.map((letter) => this.#toLetterRow(letter)) : records
    await this.#withErrorContext('write to', () => this.#append(batch, this.#keepsPositions ? positions : noPositions, signal))
  }

  /** Takes the partitions over by a snapshot without files: a commit that an earlier writer prepared before it is then refused. */
  async highWater(partitions?: readonly Partition[]): Promise<Map<Partition, Position>> {
    if (!this.#keepsPositions) return new Map()
    const { origin } = this.#context.source
    return this.#withErrorContext('take over the positions of', async () => {
      let sources = partitions?.map((partition) => sourceName(origin, partition))
      const marker = await this.#changeMarker((before) => {
        sources ??= Object.keys(before.owned).filter((source) => source.startsWith(`${origin}/`))
        return sources.length === 0 ? before : withTakenOver(before, sources, this.#context.epoch)
      })
      if (partitions === undefined) this.#known.clear()
      for (const source of sources ?? []) this.#adopt(marker, source)
      return listPositions(marker, origin, sources ?? [])
    })
  }

  async forget(): Promise<void> {
    if (!this.#keepsPositions) return
    await this.#withErrorContext('forget the positions of', () => this.#changeMarker(withForgotten))
    this.#known.clear()
  }

  async close(): Promise<void> {
    const stores = this.#stores
    this.#stores = undefined
    await stores?.catalog.close()
  }

  /** For the preview: each record against the columns of the table. */
  async tryOut(records: readonly Rec[]): Promise<(Fault | undefined)[]> {
    const metadata = (await this.#ready().catalog.loadTable(this.#context.signal))?.metadata
    return records.map((record) => {
      try {
        if (metadata === undefined || this.#config.unknownFields === 'addColumn') toFields(record, 0, this.#config)
        else buildRows([record], metadata.schema, [], { ...this.#rowConfig(metadata), targetFileBytes: 1 })
        return undefined
      } catch (thrown) {
        const { type, message } = toIcebergError(thrown, `write to table ${this.#name}`)
        return { type, message }
      }
    })
  }

  async #append(batch: readonly Rec[], positions: Positions, signal: AbortSignal | undefined): Promise<void> {
    let upload: Upload | undefined
    for (let conflicts = 0; ; conflicts += 1) {
      const { metadata } = await this.#tableFor(batch, signal)
      const marker = readMarker(metadata.properties, this.#marker)
      await this.#settleDoubts(marker, metadata)
      const rest = batch.filter((record) => !this.#stored.has(record))
      const moves = this.#toMoves(positions)
      // A conflict may be the answer to a request that a proxy sent twice.
      if (upload !== undefined && marker.batches.includes(upload.batchId)) return this.#markWritten({ upload, moves })
      await this.#discardLists(upload)
      const state = rest.length === 0 ? 'committed' : judgeMoves(marker, moves, (left, right) => this.#context.source.compare(left, right))
      if (state !== 'open' || !this.#isUsable(upload, rest, metadata)) await this.#discard(upload)
      if (state === 'fenced') throw this.#fenced()
      if (state === 'committed') return this.#adoptCommitted(marker, moves)
      if (!this.#isUsable(upload, rest, metadata)) upload = await this.#upload(metadata, rest, signal)
      const isCommitted = await this.#commit(metadata, marker, { upload: upload!, moves }, positions, signal)
      if (isCommitted) return
      if (conflicts >= conflictsMax) {
        this.#doubts.push({ upload: upload!, moves })
        throw new ConnectorError({ class: 'transient', type: 'transient' }, `table ${this.#name} changes too fast: ${conflicts} conflicts`)
      }
      await this.#context.clock.sleep(toWaitMs(conflicts), signal ?? this.#context.signal)
    }
  }

  /** False if another writer was faster. */
  async #commit(
    metadata: TableMetadata,
    marker: Marker,
    doubt: Doubt,
    positions: Positions,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { upload, moves } = doubt
    const next = withBatch(withMoved(marker, moves), upload.batchId)
    const texts: CommitTexts = {
      summary: {
        'brokkr.flow': this.#context.positionKey,
        'brokkr.batch-id': upload.batchId,
        'brokkr.epoch': String(Math.max(this.#context.epoch, ...moves.map(({ epoch }) => epoch))),
        ...(moves.length === 0 ? {} : { 'brokkr.position': positionsText(this.#context.source.origin, positions) }),
      },
      properties: { [this.#marker]: printMarker(this.#key, next) },
    }
    try {
      await commitUpload(this.#ready(), metadata, upload, texts, this.#context.clock.now(), signal)
    } catch (thrown) {
      if (thrown instanceof IcebergRejection && thrown.status === 409 && thrown.server === 'catalog') return false
      if (isUnknownOutcome(thrown)) this.#doubts.push(doubt)
      else await this.#discard(upload)
      throw thrown
    }
    this.#markWritten(doubt)
    // The table has moved on: an earlier commit without an answer can only fail now. If it happened, later batches may have displaced its
    // id from the marker, so its files stay: a snapshot may name them.
    this.#doubts = []
    return true
  }

  #markWritten({ upload, moves }: Doubt): void {
    for (const record of upload.records) this.#stored.add(record)
    // A takeover since then has read the position from the table.
    for (const { source, epoch, position } of moves) if (epoch === this.#epochOf(source)) this.#known.set(source, position)
  }

  /** The table may be further than this batch. */
  #adoptCommitted({ owned }: Marker, moves: readonly Move[]): void {
    for (const { source, epoch } of moves) {
      const now = owned[source]
      if (now !== undefined && now.epoch === epoch && now.position !== null) this.#known.set(source, now.position)
    }
  }

  /** A commit whose batch the table names happened. */
  async #settleDoubts(marker: Marker, { snapshots }: TableMetadata): Promise<void> {
    const named = new Set([...marker.batches, ...[...snapshots.values()].map(({ summary }) => summary['brokkr.batch-id'] ?? '')])
    for (const doubt of this.#doubts.filter(({ upload }) => named.has(upload.batchId))) this.#markWritten(doubt)
    this.#doubts = this.#doubts.filter(({ upload }) => !named.has(upload.batchId))
  }

  async #discard(upload: Upload | undefined): Promise<void> {
    if (upload !== undefined) await removeFiles(this.#ready().objects, upload.paths)
  }

  /** Lists of attempts that another writer overtook. */
  async #discardLists(upload: Upload | undefined): Promise<void> {
    if (upload !== undefined) await removeFiles(this.#ready().objects, upload.paths.splice(upload.files.length + 1))
  }

  #isUsable(upload: Upload | undefined, rest: readonly Rec[], metadata: TableMetadata): boolean {
    if (upload === undefined || upload.records.length !== rest.length || upload.spec['spec-id'] !== metadata.defaultSpecId) return false
    if (upload.newFields.length === 0) return upload.schema['schema-id'] === metadata.schema['schema-id']
    return upload.newFields.every(({ id }) => id > metadata.lastColumnId)
  }

  #upload(metadata: TableMetadata, records: readonly Rec[], signal: AbortSignal | undefined): Promise<Upload> {
    const config = this.#rowConfig(metadata)
    const isAdding = config.unknownFields === 'addColumn' && !config.rawMode
    const unknown = isAdding ? this.#fieldsOf(records, columnsOf(metadata.schema)) : new Map<string, Json[]>()
    const newFields = toNewFields(unknown, metadata.lastColumnId)
    return uploadBatch(this.#ready(), metadata, { batchId: randomUUID(), records, newFields }, config, signal)
  }

  #rowConfig({ schema }: TableMetadata): RowConfig & { targetFileBytes: number } {
    return { ...this.#config, rawMode: this.#config.rawMode || isRawTable(schema) }
  }

  #toMoves(positions: Positions): Move[] {
    return [...positions].map(([partition, position]) => {
      const source = sourceName(this.#context.source.origin, partition)
      return { source, epoch: this.#epochOf(source), expected: this.#known.get(source) ?? null, position }
    })
  }

  #epochOf(source: string): number {
    return this.#epochs.get(source) ?? this.#context.epoch
  }

  #adopt(marker: Marker, source: string): void {
    const { epoch, position } = marker.owned[source] ?? { epoch: this.#context.epoch, position: null }
    this.#epochs.set(source, epoch)
    if (position === null) this.#known.delete(source)
    else this.#known.set(source, position)
  }

  /** Returns the marker that the table has afterwards; a table that does not exist has none. */
  async #changeMarker(change: (before: Marker) => Marker): Promise<Marker> {
    const { signal } = this.#context
    let overtaken: Upload | undefined
    for (let conflicts = 0; ; conflicts += 1) {
      const table = await this.#load(signal)
      const before = readMarker(table?.metadata.properties ?? {}, this.#marker)
      if (overtaken !== undefined && before.batches.includes(overtaken.batchId)) return before
      await this.#discard(overtaken)
      const changed = change(before)
      if (table === undefined || changed === before) return before
      const upload = emptyUpload(table.metadata, randomUUID())
      const after = withBatch(changed, upload.batchId)
      const texts = {
        summary: { 'brokkr.flow': this.#context.positionKey, 'brokkr.epoch': String(this.#context.epoch) },
        properties: { [this.#marker]: printMarker(this.#key, after) },
      }
      try {
        await commitUpload(this.#ready(), table.metadata, upload, texts, this.#context.clock.now(), signal)
        return after
      } catch (thrown) {
        if (!(thrown instanceof IcebergRejection) || thrown.status !== 409 || conflicts >= conflictsMax) throw thrown
        overtaken = upload
        await this.#context.clock.sleep(toWaitMs(conflicts), signal)
      }
    }
  }

  async #tableFor(records: readonly Rec[], signal: AbortSignal | undefined): Promise<LoadedTable> {
    const found = await this.#load(signal)
    if (found !== undefined) return found
    if (!this.#config.autoCreateTable) throw missingTable(this.#name)
    const fields = this.#fieldsForNewTable(records)
    const spec = this.#context.role === 'errors' ? [] : parsePartitionBy(this.#config.partitionBy ?? [], { type: 'struct', fields })
    await this.#ready().catalog.createTable({ type: 'struct', fields }, spec, signal)
    const created = await this.#load(signal)
    if (created === undefined) throw missingTable(this.#name)
    return created
  }

  async #load(signal: AbortSignal | undefined): Promise<LoadedTable | undefined> {
    const { catalog, objects } = this.#ready()
    const table = await catalog.loadTable(signal)
    if (table === undefined) return undefined
    checkFormat(table.metadata)
    objects.use(table.config)
    return table
  }

  #fieldsForNewTable(records: readonly Rec[]): readonly Field[] {
    if (this.#context.role === 'errors') return deadLetterFields
    const fields = this.#fieldsOf(records, new Map())
    if (!this.#config.rawMode) return toNewFields(fields, 0)
    return textFields(this.#config.flattenMetadataColumns ? [...new Set(['data', ...fields.keys()])] : ['data', '_metadata'])
  }

  #fieldsOf(records: readonly Rec[], columns: ReadonlyMap<string, unknown>): Map<string, Json[]> {
    return collectFields(records, columns, (record, index) => toFields(record, index, this.#config))
  }

  #toLetterRow(letter: Rec): Rec {
    const row = this.#letterRows.get(letter) ?? toDeadLetterRow(letter, this.#context.clock.now())
    this.#letterRows.set(letter, row)
    return row
  }

  async #open(): Promise<Stores> {
    const catalog = await CatalogClient.open(toPlace(this.#config), this.#context)
    const stores = { catalog, objects: new ObjectStore(this.#config, catalog, this.#context) }
    this.#stores = stores
    return stores
  }

  #ready(): Stores {
    if (this.#stores === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#stores
  }

  #fenced(): ConnectorError {
    return new ConnectorError(
      { class: 'fenced', type: 'unknown' },
      `another processor took over the positions of this flow in table ${this.#name}`,
    )
  }

  #withErrorContext<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw toIcebergError(thrown, `${doing} table ${this.#name}`)
    })
  }
}

const noPositions: Positions = new Map()

/** A dead letter has its id as key; in a table it is a column. */
function toDeadLetterRow(letter: Rec, nowMs: number): Rec {
  const { error, original_message } = getPayload(letter) as JsonObject
  const id = String(Buffer.from(letter.key ?? []))
  const texts = { error: JSON.stringify(error ?? null), original_message: JSON.stringify(original_message ?? null) }
  return withPayload(letter, { id, ...texts, created_at: new Date(nowMs).toISOString() }, false)
}
