// Writes records to a table: one insert per batch. With a batch column in the table, a batch whose answer was lost is not stored twice;
// with exactlyOnce required, also across restarts of the processor.
import type { ClickhouseSink as SinkConfig } from '@brokkr/contract/dataflow/connectors/clickhouse.ts'
import type { Json, JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withPayload } from '../../message/message.ts'
import { collectFields } from '../column-values.ts'
import type { Capabilities, Fault, Partition, Position, Positions, Rec, Sink, SinkContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { type Attempt, BatchLedger, type Doubt } from './batch-ledger.ts'
import { ClickhouseClient } from './client.ts'
import { addColumnsText, createDeadLetterTableText, createRawTableText, createTableText } from './create-table.ts'
import { ClickhouseRejection, toClickhouseError } from './errors.ts'
import { toFields, toLines, withLabel } from './rows.ts'
import { quoteName, quoteTable } from './sql.ts'
import { batchColumn, readTable, type TableShape } from './table.ts'

/** One block per insert, whatever its size: a block becomes one part, which is stored as a whole or not at all. */
const insertSettings = {
  async_insert: 0,
  input_format_parallel_parsing: 0,
  // Unknown fields were checked before.
  input_format_skip_unknown_fields: 1,
  max_insert_block_size: 100_000_000,
  max_insert_block_size_bytes: 0,
  min_insert_block_size_rows: 100_000_000,
  min_insert_block_size_bytes: 4_000_000_000,
  max_insert_threads: 1,
}

/** off: inserts only · process: repeats of this process are found · restart: those of an earlier process too. */
type Deduplication = 'off' | 'process' | 'restart'

export class ClickhouseSink implements Sink {
  readonly #config: SinkConfig
  readonly #context: SinkContext
  readonly #name: string
  readonly #table: string
  readonly #ledger: BatchLedger
  #client: ClickhouseClient | undefined
  #shape: TableShape | undefined
  #deduplication: Deduplication = 'off'
  /** History of the positions in the ledger; undefined before they were read. */
  #origin: string | undefined

  constructor(config: SinkConfig, context: SinkContext) {
    this.#config = context.role === 'errors' ? toDeadLetterConfig(config) : config
    this.#context = context
    this.#name = config.table ?? ''
    this.#table = quoteTable(this.#name)
    this.#ledger = new BatchLedger((left, right) => context.source.compare(left, right))
  }

  async connect(): Promise<Capabilities> {
    await this.close()
    const client = new ClickhouseClient(this.#config, this.#context)
    this.#client = client
    return this.#withErrorContext('open', async () => {
      this.#shape = await readTable(client, this.#name)
      if (this.#shape === undefined && !this.#config.autoCreateTable) throw this.#missing()
      return this.#capabilities()
    })
  }

  /** A table that does not exist yet is created so that repeats can be found. */
  #capabilities(): Capabilities {
    const { exactlyOnce, upsertMode: isUpsert, tableEngine } = this.#config
    this.#deduplication = 'off'
    if (this.#context.role === 'errors') return { exactlyOnce: 'AtLeastOnce', isUpsert: true }
    if (isUpsert) return { exactlyOnce: 'AtLeastOnce', isUpsert, reason: 'repeated rows are replaced by their key' }
    if (exactlyOnce === 'off') return { exactlyOnce: 'AtLeastOnce', isUpsert }
    const isReplacing = this.#shape === undefined && tableEngine === 'ReplacingMergeTree'
    const reason = this.#shape?.cannotDeduplicate ?? (isReplacing ? 'the engine ReplacingMergeTree replaces rows' : undefined)
    if (exactlyOnce === 'required') return this.#requireExactlyOnce(reason)
    if (reason !== undefined) return { exactlyOnce: 'Unavailable', reason, isUpsert }
    this.#deduplication = 'process'
    return {
      exactlyOnce: 'AtLeastOnce',
      isUpsert,
      reason: 'a restart of the processor can repeat a batch; exactlyOnce required prevents it',
    }
  }

  #requireExactlyOnce(tableReason: string | undefined): Capabilities {
    const { hasStablePositions, saveState } = this.#context
    const reason =
      tableReason ??
      (saveState === undefined ? 'the flow has no checkpoint of its own' : undefined) ??
      (hasStablePositions ? undefined : 'the source may read other rows after a restart (overlapSeconds, or several replicas)')
    if (reason !== undefined)
      throw new ConnectorError(
        { class: 'config', type: 'unknown' },
        `exactlyOnce is required and table ${this.#name} cannot have it: ${reason}`,
      )
    this.#deduplication = 'restart'
    return { exactlyOnce: 'DedupToken', isUpsert: false }
  }

  async write(records: readonly Rec[], positions: Positions, signal?: AbortSignal): Promise<void> {
    const batch = this.#context.role === 'errors' ? records.map(toDeadLetterRow) : records
    await this.#withErrorContext('write to', async () => {
      try {
        await this.#writeOnce(batch, positions, signal)
      } catch (thrown) {
        // The table changed since its columns were read.
        if (!(thrown instanceof ClickhouseRejection) || ![16, 47, 60].includes(thrown.code ?? 0)) throw thrown
        this.#shape = await readTable(this.#ready(), this.#name)
        await this.#writeOnce(batch, positions, signal)
      }
    })
  }

  async highWater(partitions?: readonly Partition[]): Promise<Map<Partition, Position>> {
    if (this.#deduplication !== 'restart') return new Map()
    const { origin } = this.#context.source
    if (this.#origin === undefined) this.#ledger.restore(this.#context.storedState, origin)
    this.#origin ??= origin
    this.#forgetOtherHistory()
    const wanted = partitions === undefined ? undefined : new Set(partitions)
    return new Map([...this.#ledger.written].filter(([partition]) => wanted === undefined || wanted.has(partition)))
  }

  async forget(): Promise<void> {
    this.#ledger.clear()
    this.#origin = this.#context.source.origin
    if (this.#deduplication === 'restart') await this.#save()
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.close()
  }

  /** For the preview: each record against the columns of the table. */
  tryOut(records: readonly Rec[]): (Fault | undefined)[] {
    const shape = this.#shape
    return records.map((record) => {
      try {
        if (shape === undefined || this.#config.unknownFields === 'addColumn') toFields(record, 0, this.#config)
        else toLines([record], shape.columns, this.#config)
        return undefined
      } catch (thrown) {
        const { type, message } = toClickhouseError(thrown, `write to table ${this.#name}`)
        return { type, message }
      }
    })
  }

  /** A topic that was created anew begins at its first position again. */
  #forgetOtherHistory(): void {
    const { origin } = this.#context.source
    if (this.#origin !== undefined && this.#origin !== origin) this.#ledger.clear()
    this.#origin = origin
  }

  async #writeOnce(records: readonly Rec[], given: Positions, signal: AbortSignal | undefined): Promise<void> {
    // Without stable positions only the records themselves identify a batch.
    const positions = this.#deduplication === 'restart' ? given : noPositions
    const shape = await this.#shapeFor(records)
    if (this.#deduplication === 'off') return this.#insert(shape, toLines(records, shape.columns, this.#config), { signal })
    this.#forgetOtherHistory()
    let rest = this.#ledger.withoutStored(records)
    for (let found = this.#ledger.findDoubt(rest); found !== undefined; found = this.#ledger.findDoubt(rest)) {
      await this.#settle(shape, found, positions, signal)
      rest = this.#ledger.withoutStored(rest)
    }
    if (rest.length > 0) await this.#insertNew(shape, rest, positions, signal)
  }

  async #insertNew(shape: TableShape, records: readonly Rec[], positions: Positions, signal: AbortSignal | undefined): Promise<void> {
    // Records that cannot be written are named before anything is in doubt.
    const lines = toLines(records, shape.columns, this.#config)
    const { doubt, attempt } = this.#ledger.begin(records, positions)
    if (this.#deduplication === 'restart') await this.#save()
    await this.#insertUnderToken(shape, lines, { doubt, attempt, signal })
    this.#ledger.settle(doubt, attempt)
  }

  /** The server remembers a limited number of tokens, so an insert is repeated only if its rows are not there. The server makes the
   *  repeated insert wait for an earlier one that still runs, so the labels are final when it has answered. */
  async #settle(
    shape: TableShape,
    { doubt, records }: { doubt: Doubt; records: readonly Rec[] },
    positions: Positions,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const found = await this.#findStored(doubt, signal)
    if (found !== undefined) return this.#ledger.settle(doubt, found)
    const lines = toLines(records, shape.columns, this.#config)
    const attempt = this.#ledger.repeat(doubt, records, positions)
    if (this.#deduplication === 'restart') await this.#save()
    await this.#insertUnderToken(shape, lines, { doubt, attempt, signal })
    const stored = await this.#findStored(doubt, signal)
    // Replicas keep token and rows together: no label means that the replica that answered does not have the rows yet.
    if (stored === undefined && shape.isReplicated)
      throw new ConnectorError({ class: 'transient', type: 'transient' }, 'the replica does not show the rows of the last batch yet')
    this.#ledger.settle(doubt, stored)
  }

  async #insertUnderToken(
    shape: TableShape,
    lines: readonly string[],
    { doubt, attempt, signal }: { doubt: Doubt; attempt: Attempt; signal: AbortSignal | undefined },
  ): Promise<void> {
    try {
      await this.#insert(shape, lines, { signal, token: doubt.token, label: attempt.label })
    } catch (thrown) {
      if (thrown instanceof ClickhouseRejection && toClickhouseError(thrown, '').class === 'record') {
        // A materialized view may reject what the table itself has stored.
        const isStored = shape.hasViews && (await this.#storedLabels([attempt.label], signal)).size > 0
        if (isStored) this.#ledger.settle(doubt, attempt)
        else this.#ledger.withdraw(doubt, attempt)
      }
      throw thrown
    }
  }

  async #findStored({ attempts }: Doubt, signal: AbortSignal | undefined): Promise<Attempt | undefined> {
    const labels = await this.#storedLabels(
      attempts.map(({ label }) => label),
      signal,
    )
    return attempts.find(({ label }) => labels.has(label))
  }

  async #storedLabels(labels: readonly string[], signal: AbortSignal | undefined): Promise<Set<string>> {
    const rows = await this.#ready().rows<{ label: string }>({
      sql: `select distinct toString(${quoteName(batchColumn)}) as label from ${this.#table} where ${quoteName(batchColumn)} in ({labels:Array(String)})`,
      // Of a server with replicas, only one that has all parts may answer.
      settings: { select_sequential_consistency: 1 },
      params: { labels: `[${labels.map((label) => `'${label}'`).join(',')}]` },
      signal,
    })
    return new Set(rows.map(({ label }) => label))
  }

  async #insert(
    shape: TableShape,
    lines: readonly string[],
    how: { signal: AbortSignal | undefined; token?: string; label?: string },
  ): Promise<void> {
    const { signal, token, label } = how
    const columns = [...shape.columns.keys()].filter((name) => name !== batchColumn || label !== undefined)
    await this.#ready().run({
      sql: `insert into ${this.#table} (${columns.map(quoteName).join(', ')}) format JSONEachRow`,
      body: (label === undefined ? lines : lines.map((line) => withLabel(line, label))).join('\n'),
      settings: { ...insertSettings, ...(token === undefined ? {} : { insert_deduplication_token: token }) },
      signal,
    })
  }

  async #save(): Promise<void> {
    await this.#context.saveState?.(this.#ledger.toState(this.#context.source.origin))
  }

  async #shapeFor(records: readonly Rec[]): Promise<TableShape> {
    const client = this.#ready()
    this.#shape ??= await readTable(client, this.#name)
    this.#shape ??= await this.#create(client, records)
    const reason = this.#deduplication === 'off' ? undefined : this.#shape.cannotDeduplicate
    // The next connection finds out which guarantee is left.
    if (reason !== undefined) throw new ConnectorError({ class: 'config', type: 'unknown' }, `table ${this.#name} was changed: ${reason}`)
    if (this.#config.unknownFields !== 'addColumn' || this.#config.rawMode) return this.#shape
    const unknown = this.#fieldsOf(records, this.#shape.columns)
    if (unknown.size > 0) {
      await client.run({ sql: addColumnsText(this.#table, unknown) })
      this.#shape = (await readTable(client, this.#name)) ?? this.#shape
    }
    return this.#shape
  }

  async #create(client: ClickhouseClient, records: readonly Rec[]): Promise<TableShape> {
    if (!this.#config.autoCreateTable) throw this.#missing()
    await client.run({ sql: this.#createText(records) })
    const shape = await readTable(client, this.#name)
    if (shape === undefined) throw this.#missing()
    return shape
  }

  #createText(records: readonly Rec[]): string {
    if (this.#context.role === 'errors') return createDeadLetterTableText(this.#table)
    const fields = this.#fieldsOf(records, new Map())
    if (!this.#config.rawMode) return createTableText(this.#table, this.#config, fields, records.length)
    const other = new Set(['data', ...(this.#config.upsertMode ? this.#config.conflictKey : [])])
    const metadata = this.#config.flattenMetadataColumns ? [...fields.keys()].filter((key) => !other.has(key)) : undefined
    return createRawTableText(this.#table, this.#config, metadata)
  }

  #fieldsOf(records: readonly Rec[], columns: ReadonlyMap<string, unknown>): Map<string, Json[]> {
    const fields = collectFields(records, columns, (record, index) => toFields(record, index, this.#config))
    fields.delete(batchColumn)
    return fields
  }

  #ready(): ClickhouseClient {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  #missing(): ConnectorError {
    return new ConnectorError({ class: 'config', type: 'unknown' }, `table ${this.#name} does not exist, and autoCreateTable is off`)
  }

  #withErrorContext<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw toClickhouseError(thrown, `${doing} table ${this.#name}`)
    })
  }
}

const noPositions: Positions = new Map()

/** A dead letter has its id as key; in a table it is a column. */
function toDeadLetterRow(letter: Rec): Rec {
  const { error, original_message } = getPayload(letter) as JsonObject
  const id = String(Buffer.from(letter.key ?? []))
  return withPayload(
    letter,
    { id, error: JSON.stringify(error ?? null), original_message: JSON.stringify(original_message ?? null) },
    false,
  )
}

/** A dead letter is written once by its id, whatever the flow's settings for that table are. */
const toDeadLetterConfig = (config: SinkConfig): SinkConfig => ({
  ...config,
  upsertMode: false,
  conflictKey: ['id'],
  rawMode: false,
  unknownFields: 'ignore',
  autoCreateTable: config.autoCreateTable,
})
