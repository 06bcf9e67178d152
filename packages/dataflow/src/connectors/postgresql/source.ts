// Polls a table or query for new and changed rows, ordered by a change column and a key. Deletes are not visible. With an overlap the last
// seconds are read again and emitted rows are skipped, so that rows which commit late are found.
import type { PostgresqlSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { Json, JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type pg from 'pg'
import { newMessage } from '../../message/message.ts'
import type { Batch, Budget, Lag, Message, Position, Positions, Rewind, Source, SourceContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { compareKeys, timeText } from '../polling/keys.ts'
import { connectPostgres } from './client.ts'
import { toPostgresError } from './errors.ts'
import { OverlapWindow, type RowKey } from './overlap.ts'
import { equalKeysMax, type From, keysStatement, type PageShape, pageStatement } from './page.ts'
import { createPolledTable, readShape } from './page-shape.ts'
import { quoteName, quoteTable } from './sql.ts'

/** c: change value, empty while rows without one are read · o: order value · n: rows emitted after that row whose keys do not show it:
 *  late rows, and rows that share their keys with the next one. */
type At = { readonly c: string; readonly o: string; readonly n: number }
interface Keys {
  readonly change: string | null
  readonly ord: string
}
interface PageRow extends Keys {
  /** Null beyond the byte limit of a page. */
  readonly row: string | null
  readonly operation: string
}
type SentRow = PageRow & { readonly row: string }

const overlapRowsMax = 100_000
/** Rows of the overlap read at once. */
const keysMax = 10_000
/** Rows of the first page; a page that is not cut doubles it up to readBatchSize. */
const firstRows = 64
/** All rows are one sequence. */
const partition = 'rows'

export class PostgresSource implements Source {
  origin = ''
  readonly #config: SourceConfig
  readonly #context: SourceContext
  #client: pg.Client | undefined
  #shape: PageShape | undefined
  /** Last emitted row; the next page starts there. */
  #read: At | undefined
  #committed: At | undefined
  readonly #overlap: OverlapWindow | undefined
  #isNarrowed = false
  #pageRows = firstRows

  constructor(config: SourceConfig, context: SourceContext) {
    this.#config = config
    this.#context = context
    this.#committed = fromState(context.stored)
    this.#read = this.#committed
    const overlapMs = (config.overlapSeconds ?? 0) * 1000
    const compare = (left: RowKey, right: RowKey) => this.compare({ ...left, n: 0 }, { ...right, n: 0 })
    if (overlapMs > 0) this.#overlap = new OverlapWindow({ overlapMs, rowsMax: overlapRowsMax, compare })
  }

  async connect(): Promise<void> {
    await this.close()
    const client = await connectPostgres(this.#config, this.#context)
    this.#client = client
    await this.#withErrorContext('open', async () => {
      if (this.#config.autoCreateTable && this.#config.query === undefined)
        await createPolledTable(client, quoteTable(this.#config.table ?? ''))
      this.#shape = await readShape(client, this.#config)
      const result = await client
        .query<{ id: string }>('select system_identifier::text as id from pg_control_system()')
        .catch(() => undefined)
      this.origin = `${result?.rows[0]?.id ?? ''}/${client.database ?? ''}/${this.#config.table ?? 'query'}`
    }).catch((thrown: unknown) => this.close().then(() => Promise.reject(thrown)))
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    const { signal, clock } = this.#context
    try {
      yield* this.#readNulls(budget)
      while (!signal.aborted) {
        yield* this.#poll(budget)
        if (this.#context.isBounded) return
        await clock.sleep(this.#config.pollIntervalMs, signal)
      }
    } catch (thrown) {
      if (!signal.aborted) throw toPostgresError(thrown, `read ${this.#place()}`)
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const position = upTo.get(partition)
    if (position !== undefined) this.#committed = position as At
  }

  /** Age of the oldest unread row. */
  async lag(): Promise<Lag> {
    const at = this.#committed
    const shape = this.#shape
    if (shape === undefined || this.#client === undefined || shape.change.kind !== 'time' || at === undefined || at.c === '') return {}
    return this.#withErrorContext('read the lag of', async () => {
      const page = pageStatement({ ...shape, limit: 1 }, { at: 'behind' })
      const text = `select greatest(0, extract(epoch from now() - p.change::timestamptz))::text as seconds from (${page}) as p`
      const result = await this.#ready().query<{ seconds: string }>({ text, values: [at.c, at.o] })
      return { seconds: Number(result.rows[0]?.seconds ?? 0) }
    })
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => undefined)
  }

  compare(left: Position, right: Position): number {
    const [a, b] = [left as At, right as At]
    // Rows without a change value come first.
    if ((a.c === '') !== (b.c === '')) return a.c === '' ? -1 : 1
    const { change, order } = this.#shape ?? { change: { kind: 'text' as const }, order: { kind: 'text' as const } }
    return compareKeys(change.kind, a.c, b.c) || compareKeys(order.kind, a.o, b.o) || a.n - b.n
  }

  describe(positions: Positions): string {
    const at = positions.get(partition) as At | undefined
    if (at === undefined) return 'start'
    return `${at.c === '' ? 'rows without a change value' : at.c} ${this.#config.orderByColumn}=${at.o}`
  }

  state(): JsonObject | undefined {
    const at = this.#committed
    return at === undefined
      ? undefined
      : { lastReadChangeTime: at.c, lastReadOrderByValue: at.o, ...(at.n === 0 ? {} : { lateRows: at.n }) }
  }

  async rewind(to: Rewind): Promise<void> {
    if (to === 'start' || to === 'earliest') this.#committed = undefined
    else if (typeof to === 'object' && 'changeTime' in to)
      this.#committed = { c: to.changeTime, o: to.orderValue ?? (await this.#lowestOrder()), n: 0 }
    else throw new ConnectorError({ class: 'config', type: 'unknown' }, 'a postgresql source is rewound to earliest or to a changeTime')
    this.#read = this.#committed
    this.#overlap?.clear()
  }

  /** Lower than any order value; the row at that time is read again. */
  async #lowestOrder(): Promise<string> {
    const order = this.#shape?.order
    if (order === undefined || order.kind === 'text') return order?.type === 'uuid' ? '00000000-0000-0000-0000-000000000000' : ''
    const result = await this.#ready().query<{ low: string | null }>(
      `select (min(q.${quoteName(order.name)}))::text as low from ${this.#shape!.relation} as q`,
    )
    const low = result.rows[0]?.low
    return order.kind === 'number' ? String(Number(low ?? 0) - 1) : '-infinity'
  }

  /** Only in the first run: a change of a row without a change value cannot be detected. */
  async *#readNulls(budget: Budget): AsyncGenerator<Batch> {
    if (this.#read !== undefined && this.#read.c !== '') return
    for (;;) {
      const last = this.#read
      await budget.room(this.#context.signal)
      const isFirst = last === undefined || isBeforeAll(last)
      const page = await this.#page({ at: 'nulls', isFirst }, isFirst ? [] : [last.o])
      if (page.rows.length > 0) yield this.#handOut(page.rows)
      if (page.isLast) return
    }
  }

  async *#poll(budget: Budget): AsyncGenerator<Batch> {
    yield* this.#readLate(budget)
    for (;;) {
      const last = this.#read
      await budget.room(this.#context.signal)
      const isStart = last === undefined || last.c === ''
      const page = await this.#page(isStart ? { at: 'start' } : { at: 'behind' }, isStart ? [] : [last.c, last.o])
      if (page.rows.length > 0) yield this.#handOut(page.rows)
      if (page.isLast) return
    }
  }

  /** Rows within the overlap before the last row that were not emitted. */
  async *#readLate(budget: Budget): AsyncGenerator<Batch> {
    const [last, overlap] = [this.#read, this.#overlap]
    if (overlap === undefined || last === undefined || last.c === '' || this.#shape!.change.kind !== 'time') return
    let begin = overlap.floor
    for (;;) {
      await budget.room(this.#context.signal)
      const emitted = await this.#knownKeys(overlap, last, begin)
      begin = emitted.end ?? begin
      if (emitted.areAll) return
      if (emitted.isFull) continue
      const { rows, isLast } = await this.#page(...this.#overlapFrom(last, begin))
      const lateRows = rows.filter((row) => !overlap.has(this.#toPosition(row)))
      if (lateRows.length > 0) yield this.#handOut(lateRows, true)
      if (isLast || rows.length === 0) return
      begin = this.#toPosition(rows.at(-1)!)
    }
  }

  /** The run of emitted rows from `begin` on. Most polls find nothing else, so only keys are read. isFull: there may be more · areAll:
   *  there are no others. */
  async #knownKeys(overlap: OverlapWindow, last: At, begin: RowKey | undefined) {
    const [from, values] = this.#overlapFrom(last, begin)
    const text = keysStatement({ ...this.#shape!, limit: keysMax }, from)
    const keys = (await this.#ready().query<Keys & pg.QueryResultRow>({ text, values })).rows.map((row) => this.#toPosition(row))
    const firstUnknown = keys.findIndex((key) => !overlap.has(key))
    const emittedKeys = firstUnknown < 0 ? keys : keys.slice(0, firstUnknown)
    const isFull = firstUnknown < 0 && keys.length === keysMax
    return { end: emittedKeys.at(-1), isFull, areAll: firstUnknown < 0 && !isFull }
  }

  #overlapFrom(last: At, begin: RowKey | undefined): [From, string[]] {
    if (begin !== undefined) return [{ at: 'overlap', begin: 'row' }, [last.c, last.o, begin.c, begin.o]]
    return [{ at: 'overlap', begin: 'time' }, [last.c, last.o, `${this.#config.overlapSeconds ?? 0} seconds`]]
  }

  async #page(from: From, values: readonly string[]): Promise<{ rows: SentRow[]; isLast: boolean }> {
    const limit = Math.min(this.#pageRows, this.#shape!.limit)
    const text = pageStatement({ ...this.#shape!, limit }, from)
    const pageRows = (await this.#ready().query<PageRow & pg.QueryResultRow>({ text, values: [...values] })).rows
    const rows = pageRows.filter((row): row is PageRow & SentRow => row.row !== null)
    const [end, cut] = [rows.at(-1), pageRows.find((row) => row.row === null)]
    const isInside = end !== undefined && cut !== undefined && this.#haveEqualKeys(end, cut)
    if (isInside || pageRows.length >= limit + equalKeysMax) throw this.#tooManyEqual()
    // Rows that the server reads without need cost as much as those it sends.
    if (rows.length < pageRows.length) this.#pageRows = Math.max(1, rows.length)
    else if (pageRows.length >= limit) this.#pageRows = Math.min(limit * 2, this.#shape!.limit)
    return { rows, isLast: pageRows.length < limit && rows.length === pageRows.length }
  }

  #handOut(rows: readonly SentRow[], isLate = false): Batch {
    const keys = rows.map((row) => this.#toPosition(row))
    const messages = rows.map((row, index): Message => {
      // A late row is positioned after the last read row, whatever its time: positions only grow. So is a row with the keys of the next
      // one: reading that continues after these keys would miss the next one.
      const last = this.#read ?? beforeAll
      const next = rows[index + 1]
      const isCounted = isLate || (next !== undefined && this.#haveEqualKeys(row, next))
      const at = isCounted ? { ...last, n: last.n + 1 } : keys[index]!
      this.#read = at
      return newMessage({ raw: Buffer.from(row.row), metadata: this.#buildMetadata(row), position: at, partition })
    })
    this.#remember(keys)
    return { messages }
  }

  #toPosition({ change, ord }: Keys): At {
    const { change: column, order } = this.#shape!
    return { c: change === null ? '' : timeText(column.kind, change), o: timeText(order.kind, ord), n: 0 }
  }

  #haveEqualKeys(left: Keys, right: Keys): boolean {
    return this.compare(this.#toPosition(left), this.#toPosition(right)) === 0
  }

  #tooManyEqual(): ConnectorError {
    const { change, order } = this.#shape!
    return new ConnectorError(
      { class: 'config', type: 'unknown' },
      `too many rows have the same ${change.name} and ${order.name}: set orderByColumn to a column that differs between rows`,
    )
  }

  #remember(keys: readonly At[]): void {
    const overlap = this.#overlap
    if (overlap === undefined || this.#read === undefined || this.#read.c === '' || this.#shape!.change.kind !== 'time') return
    overlap.add(keys, this.#read)
    const isNarrowed = overlap.floor !== undefined
    if (isNarrowed === this.#isNarrowed) return
    this.#isNarrowed = isNarrowed
    const text = `more than ${overlapRowsMax} rows are within overlapSeconds: only the latest of them are read again, so a row that commits late among the older ones is missed; use a smaller overlapSeconds or postgresql-cdc`
    this.#context.condition('OverlapNarrowed', isNarrowed ? text : undefined)
    if (isNarrowed) this.#context.notice('OverlapNarrowed', text)
  }

  #buildMetadata({ ord, operation }: SentRow): { [key: string]: Json } {
    const isNumber = this.#shape!.order.kind === 'number' && Number.isSafeInteger(Number(ord))
    return { ...(this.#config.table === undefined ? {} : { table: this.#config.table }), id: isNumber ? Number(ord) : ord, operation }
  }

  #ready(): pg.Client {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  #place(): string {
    return this.#config.query === undefined ? `table ${this.#config.table ?? ''}` : 'the query'
  }

  #withErrorContext<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw toPostgresError(thrown, `${doing} ${this.#place()}`)
    })
  }
}

/** Position while no row was emitted. */
const beforeAll: At = { c: '', o: '', n: 0 }
/** A row with an empty key counts no others. */
const isBeforeAll = ({ c, o, n }: At): boolean => c === '' && o === '' && n > 0

/** Older checkpoints use other names for the two values. */
function fromState(stored: JsonObject | undefined): At | undefined {
  const c = stored?.['lastReadChangeTime'] ?? stored?.['lastReadTime']
  const o = stored?.['lastReadOrderByValue'] ?? stored?.['lastReadID']
  if (typeof c !== 'string' || (typeof o !== 'string' && typeof o !== 'number')) return undefined
  return { c, o: String(o), n: Number(stored?.['lateRows'] ?? 0) }
}
