// Polls a table or a query for rows that are new or changed, in order of a change column and a key. Deletes are invisible to it. With an
// overlap the last seconds are read again each time and what was handed out already is left out: rows that commit late are found.
import type { PostgresqlSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { Json, JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type pg from 'pg'
import { newMessage } from '../message.ts'
import type { Batch, Budget, Lag, Message, Position, Positions, Rewind, Source, SourceContext } from './connector.ts'
import { ConnectorError } from './connector.ts'
import { connectPostgres } from './postgresql-client.ts'
import { postgresError } from './postgresql-errors.ts'
import { compareKeys, type From, type PageShape, pageStatement, timeText } from './postgresql-page.ts'
import { createPolledTable, readShape } from './postgresql-shape.ts'
import { quoted, quotedTable } from './sql.ts'

/** c: change, empty while rows without one are read · o: order · n: rows that committed late, counted behind that row. */
type At = { readonly c: string; readonly o: string; readonly n: number }
interface PageRow {
  readonly row: string
  readonly change: string | null
  readonly ord: string
  readonly operation: string
}

const emittedMax = 100_000
/** All rows are of one sequence. */
const partition = 'rows'

export class PostgresSource implements Source {
  origin = ''
  readonly #config: SourceConfig
  readonly #context: SourceContext
  #client: pg.Client | undefined
  #shape: PageShape | undefined
  /** The last row handed out; where the next page begins. */
  #read: At | undefined
  #committed: At | undefined
  readonly #emitted = new Set<string>()

  constructor(config: SourceConfig, context: SourceContext) {
    this.#config = config
    this.#context = context
    this.#committed = fromState(context.stored)
    this.#read = this.#committed
  }

  async connect(): Promise<void> {
    await this.close()
    const client = await connectPostgres(this.#config, this.#context)
    this.#client = client
    await this.#say('open', async () => {
      if (this.#config.autoCreateTable && this.#config.query === undefined)
        await createPolledTable(client, quotedTable(this.#config.table ?? ''))
      this.#shape = await readShape(client, this.#config)
      const found = await client
        .query<{ id: string }>('select system_identifier::text as id from pg_control_system()')
        .catch(() => undefined)
      this.origin = `${found?.rows[0]?.id ?? ''}/${client.database ?? ''}/${this.#config.table ?? 'query'}`
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
      if (!signal.aborted) throw postgresError(thrown, `read ${this.#place()}`)
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const position = upTo.get(partition)
    if (position !== undefined) this.#committed = position as At
  }

  /** The age of the oldest row that waits. */
  async lag(): Promise<Lag> {
    const at = this.#committed
    const shape = this.#shape
    if (shape === undefined || this.#client === undefined || shape.change.kind !== 'time' || at === undefined || at.c === '') return {}
    return this.#say('look at', async () => {
      const page = pageStatement({ ...shape, limit: 1 }, { at: 'behind' })
      const text = `select greatest(0, extract(epoch from now() - p.change::timestamptz))::text as seconds from (${page}) as p`
      const found = await this.#ready().query<{ seconds: string }>({ text, values: [at.c, at.o] })
      return { seconds: Number(found.rows[0]?.seconds ?? 0) }
    })
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => undefined)
  }

  compare(left: Position, right: Position): number {
    const [a, b] = [left as At, right as At]
    // Rows without a change value come before all others.
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
    if (to === 'start') this.#committed = undefined
    else if (typeof to === 'object' && 'changeTime' in to)
      this.#committed = { c: to.changeTime, o: to.orderValue ?? (await this.#lowestOrder()), n: 0 }
    else throw new ConnectorError({ class: 'config', type: 'unknown' }, 'a postgresql source is rewound to the start or to a changeTime')
    this.#read = this.#committed
    this.#emitted.clear()
  }

  /** Something that no order value lies before; the row at that very time is read again. */
  async #lowestOrder(): Promise<string> {
    const order = this.#shape?.order
    if (order === undefined || order.kind === 'text') return order?.type === 'uuid' ? '00000000-0000-0000-0000-000000000000' : ''
    const found = await this.#ready().query<{ low: string | null }>(
      `select (min(q.${quoted(order.name)}))::text as low from ${this.#shape!.relation} as q`,
    )
    const low = found.rows[0]?.low
    return order.kind === 'number' ? String(Number(low ?? 0) - 1) : '-infinity'
  }

  /** The first run alone reads them: a row without a change value cannot be seen to change. */
  async *#readNulls(budget: Budget): AsyncGenerator<Batch> {
    if (this.#read !== undefined && this.#read.c !== '') return
    for (;;) {
      const last = this.#read
      await budget.room(this.#context.signal)
      const rows = await this.#page({ at: 'nulls', isFirst: last === undefined }, last === undefined ? [] : [last.o])
      if (rows.length > 0) yield this.#handOut(rows)
      if (rows.length < this.#shape!.limit) return
    }
  }

  async *#poll(budget: Budget): AsyncGenerator<Batch> {
    yield* this.#readLate(budget)
    for (;;) {
      const last = this.#read
      await budget.room(this.#context.signal)
      const isStart = last === undefined || last.c === ''
      const rows = await this.#page(isStart ? { at: 'start' } : { at: 'behind' }, isStart ? [] : [last.c, last.o])
      if (rows.length > 0) yield this.#handOut(rows)
      if (rows.length < this.#shape!.limit) return
    }
  }

  /** What lies within the overlap before the last row and was not handed out yet. */
  async *#readLate(budget: Budget): AsyncGenerator<Batch> {
    const seconds = this.#config.overlapSeconds ?? 0
    const last = this.#read
    if (seconds === 0 || last === undefined || last.c === '' || this.#shape!.change.kind !== 'time') return
    let from: { page: From; values: string[] } = { page: { at: 'since' }, values: [last.c, `${seconds} seconds`] }
    for (;;) {
      await budget.room(this.#context.signal)
      const rows = await this.#page(from.page, from.values)
      const before = rows.filter((row) => this.compare(this.#atOf(row), { ...last, n: 0 }) <= 0)
      const late = before.filter((row) => !this.#emitted.has(keyOf(row)))
      if (late.length > 0) yield this.#handOut(late, true)
      const end = rows.at(-1)
      if (end === undefined || rows.length < this.#shape!.limit || before.length < rows.length) return
      from = { page: { at: 'behind' }, values: [end.change ?? '', end.ord] }
    }
  }

  async #page(from: From, values: readonly string[]): Promise<PageRow[]> {
    return (await this.#ready().query<PageRow & pg.QueryResultRow>({ text: pageStatement(this.#shape!, from), values: [...values] })).rows
  }

  #handOut(rows: readonly PageRow[], isLate = false): Batch {
    const messages = rows.map((row): Message => {
      // A late row lies behind the last one that was read, whatever its own time says: positions only move forward.
      const last = this.#read
      const at = isLate && last !== undefined ? { ...last, n: last.n + 1 } : this.#atOf(row)
      this.#read = at
      this.#remember(row)
      return newMessage({ raw: Buffer.from(row.row), metadata: this.#metadataOf(row), position: at, partition })
    })
    return { messages }
  }

  #atOf({ change, ord }: PageRow): At {
    const { change: column, order } = this.#shape!
    return { c: change === null ? '' : timeText(column.kind, change), o: timeText(order.kind, ord), n: 0 }
  }

  #remember(row: PageRow): void {
    if ((this.#config.overlapSeconds ?? 0) === 0) return
    this.#emitted.add(keyOf(row))
    if (this.#emitted.size > emittedMax) this.#emitted.delete(this.#emitted.values().next().value!)
  }

  #metadataOf({ ord, operation }: PageRow): { [key: string]: Json } {
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

  #say<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw postgresError(thrown, `${doing} ${this.#place()}`)
    })
  }
}

const keyOf = ({ change, ord }: PageRow): string => `${change ?? ''}\n${ord}`

/** Older files name the two values otherwise. */
function fromState(stored: JsonObject | undefined): At | undefined {
  const c = stored?.['lastReadChangeTime'] ?? stored?.['lastReadTime']
  const o = stored?.['lastReadOrderByValue'] ?? stored?.['lastReadID']
  if (typeof c !== 'string' || (typeof o !== 'string' && typeof o !== 'number')) return undefined
  return { c, o: String(o), n: Number(stored?.['lateRows'] ?? 0) }
}
