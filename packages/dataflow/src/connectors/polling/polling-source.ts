// Polls a table or query for new and changed rows, ordered by a change column and a key. Deletes are not visible. The backend runs the
// queries; this class keeps positions, page sizes and order.
import type { Json, JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { newMessage } from '../../message/message.ts'
import type { Batch, Budget, Lag, Message, Position, Positions, Rewind, Source, SourceContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { compareKeys, type KeyKind, timeText } from './keys.ts'

/** Where a page starts: nulls: rows without a change value, behind a row of them. */
export type PageStart =
  | { readonly at: 'nulls'; readonly after: string | undefined }
  | { readonly at: 'start' }
  | { readonly at: 'behind'; readonly change: string; readonly order: string }

export interface PolledRow {
  /** JSON text. */
  readonly row: string
  readonly change: string | null
  readonly ord: string | null
  readonly operation?: string
}

export interface PollShape {
  readonly origin: string
  readonly change: KeyKind
  readonly order: KeyKind
}

export interface PollingBackend {
  connect(): Promise<PollShape>
  /** Rows in order; rows whose keys equal those of the last one belong to the page, beyond `limit` too. */
  page(start: PageStart, limit: number): Promise<readonly PolledRow[]>
  /** Age of the oldest row behind these keys; undefined if it cannot be known. */
  lagSeconds(change: string, order: string): Promise<number | undefined>
  close(): Promise<void>
  toError(thrown: unknown, doing: string): ConnectorError
}

export interface PollingConfig {
  readonly table?: string | undefined
  readonly query?: string | undefined
  readonly pollIntervalMs: number
  readonly readBatchSize: number
  readonly orderByColumn: string
}

/** c: change value, empty while rows without one are read · o: order value · n: rows emitted after that row with the same keys. */
type At = { readonly c: string; readonly o: string; readonly n: number }

const firstRows = 64
/** A page of more bytes makes the next one smaller. */
const pageBytesMax = 4 << 20
/** Rows with equal keys beyond a page. */
const equalKeysMax = 10_000
/** All rows are one sequence. */
const partition = 'rows'

export class PollingSource implements Source {
  origin = ''
  readonly #type: string
  readonly #config: PollingConfig
  readonly #context: SourceContext
  readonly #backend: PollingBackend
  #shape: PollShape | undefined
  #read: At | undefined
  #committed: At | undefined
  #pageRows = firstRows

  constructor(type: string, config: PollingConfig, context: SourceContext, backend: PollingBackend) {
    this.#type = type
    this.#config = config
    this.#context = context
    this.#backend = backend
    this.#committed = fromState(context.stored)
    this.#read = this.#committed
  }

  async connect(): Promise<void> {
    this.#shape = await this.#withErrorContext('open', () => this.#backend.connect())
    this.origin = this.#shape.origin
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    const { signal, clock } = this.#context
    // Rows with equal keys are read again from the first one on, and get the positions that they had.
    if (this.#read !== undefined) this.#read = isBeforeAll(this.#read) ? undefined : { ...this.#read, n: 0 }
    try {
      yield* this.#readNulls(budget)
      while (!signal.aborted) {
        yield* this.#poll(budget)
        if (this.#context.isBounded) return
        await clock.sleep(this.#config.pollIntervalMs, signal)
      }
    } catch (thrown) {
      if (!signal.aborted) throw this.#backend.toError(thrown, `read ${this.#place()}`)
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const position = upTo.get(partition)
    if (position !== undefined) this.#committed = position as At
  }

  async lag(): Promise<Lag> {
    const at = this.#committed
    if (this.#shape?.change !== 'time' || at === undefined || at.c === '') return {}
    const seconds = await this.#withErrorContext('read the lag of', () => this.#backend.lagSeconds(at.c, at.o))
    return seconds === undefined ? {} : { seconds: Math.max(0, seconds) }
  }

  close(): Promise<void> {
    return this.#backend.close()
  }

  compare(left: Position, right: Position): number {
    const [a, b] = [left as At, right as At]
    // Rows without a change value come first.
    if ((a.c === '') !== (b.c === '')) return a.c === '' ? -1 : 1
    const { change, order } = this.#shape ?? { change: 'text', order: 'text' }
    return compareKeys(change, a.c, b.c) || compareKeys(order, a.o, b.o) || a.n - b.n
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
    else if (typeof to === 'object' && 'changeTime' in to) this.#committed = { c: to.changeTime, o: to.orderValue ?? '', n: 0 }
    else throw new ConnectorError({ class: 'config', type: 'unknown' }, `a ${this.#type} source is rewound to the start or to a changeTime`)
    this.#read = this.#committed
  }

  /** Only in the first run: a change of a row without a change value cannot be detected. */
  async *#readNulls(budget: Budget): AsyncGenerator<Batch> {
    if (this.#read !== undefined && this.#read.c !== '') return
    for (;;) {
      await budget.room(this.#context.signal)
      const last = this.#read
      const page = await this.#page({ at: 'nulls', after: last?.o })
      if (page.rows.length > 0) yield this.#handOut(page.rows)
      if (page.isLast) return
    }
  }

  async *#poll(budget: Budget): AsyncGenerator<Batch> {
    for (;;) {
      await budget.room(this.#context.signal)
      const last = this.#read
      const page = await this.#page(last === undefined || last.c === '' ? { at: 'start' } : { at: 'behind', change: last.c, order: last.o })
      if (page.rows.length > 0) yield this.#handOut(page.rows)
      if (page.isLast) return
    }
  }

  async #page(start: PageStart): Promise<{ rows: readonly PolledRow[]; isLast: boolean }> {
    const limit = Math.min(this.#pageRows, this.#config.readBatchSize)
    const rows = await this.#backend.page(start, limit)
    if (rows.length >= limit + equalKeysMax)
      throw new ConnectorError(
        { class: 'config', type: 'unknown' },
        'too many rows have the same change value and order value: set orderByColumn to a column that differs between rows',
      )
    if (rows.some(({ ord }) => ord === null))
      throw new ConnectorError(
        { class: 'config', type: 'unknown' },
        `a row has no value in ${this.#config.orderByColumn}, so reading cannot continue behind it: set orderByColumn to a column without null, or leave such rows out with a query`,
      )
    const bytes = rows.reduce((sum, { row }) => sum + row.length, 0)
    if (bytes > pageBytesMax) this.#pageRows = Math.max(1, Math.floor((limit * pageBytesMax) / bytes))
    else if (rows.length >= limit) this.#pageRows = Math.min(limit * 2, this.#config.readBatchSize)
    return { rows, isLast: rows.length < limit }
  }

  #handOut(given: readonly PolledRow[]): Batch {
    const rows = orderEqualKeys(given)
    const keys = rows.map((row) => this.#toPosition(row))
    const messages = rows.map((row, index): Message => {
      // A row with the keys of the next one is counted behind the row before: reading that continues after these keys would miss the next.
      const next = keys[index + 1]
      const last = this.#read ?? { c: '', o: '', n: 0 }
      const at = next !== undefined && this.compare(keys[index]!, next) === 0 ? { ...last, n: last.n + 1 } : keys[index]!
      this.#read = at
      return newMessage({ raw: Buffer.from(row.row), metadata: this.#buildMetadata(row), position: at, partition })
    })
    return { messages }
  }

  #toPosition({ change, ord }: PolledRow): At {
    const { change: changeKind, order } = this.#shape!
    return { c: change === null ? '' : timeText(changeKind, change), o: timeText(order, ord ?? ''), n: 0 }
  }

  #buildMetadata({ ord, operation }: PolledRow): { [key: string]: Json } {
    const isNumber = this.#shape!.order === 'number' && Number.isSafeInteger(Number(ord))
    const { table } = this.#config
    return { ...(table === undefined ? {} : { table }), id: isNumber ? Number(ord) : ord, operation: operation ?? 'insert' }
  }

  #place(): string {
    return this.#config.query === undefined ? `table ${this.#config.table ?? ''}` : 'the query'
  }

  #withErrorContext<T>(doing: string, work: () => Promise<T>): Promise<T> {
    return work().catch((thrown: unknown) => {
      throw this.#backend.toError(thrown, `${doing} ${this.#place()}`)
    })
  }
}

/** The server returns rows with equal keys in any order; their positions must be the same in every run. */
function orderEqualKeys(rows: readonly PolledRow[]): readonly PolledRow[] {
  const hasEqual = rows.some(({ change, ord }, at) => at > 0 && rows[at - 1]!.ord === ord && rows[at - 1]!.change === change)
  if (!hasEqual) return rows
  const groups: PolledRow[][] = []
  for (const row of rows) {
    const last = groups.at(-1)
    if (last !== undefined && last[0]!.ord === row.ord && last[0]!.change === row.change) last.push(row)
    else groups.push([row])
  }
  return groups.flatMap((group) => group.toSorted((left, right) => (left.row < right.row ? -1 : left.row > right.row ? 1 : 0)))
}

/** Rows with equal keys were emitted, and no other row before them. */
const isBeforeAll = ({ c, o, n }: At): boolean => c === '' && o === '' && n > 0

function fromState(stored: JsonObject | undefined): At | undefined {
  const c = stored?.['lastReadChangeTime']
  const o = stored?.['lastReadOrderByValue']
  if (typeof c !== 'string' || (typeof o !== 'string' && typeof o !== 'number')) return undefined
  return { c, o: String(o), n: Number(stored?.['lateRows'] ?? 0) }
}
