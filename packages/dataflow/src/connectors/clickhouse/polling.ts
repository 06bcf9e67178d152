// Queries of the polling source: keyset paging by (change, order). Text is ordered by bytes, as positions are compared here.
import type { ClickhouseSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/clickhouse.ts'
import { type ConnectorContext, ConnectorError } from '../connector.ts'
import type { KeyKind } from '../polling/keys.ts'
import type { PageStart, PolledRow, PollingBackend, PollShape } from '../polling/polling-source.ts'
import { ClickhouseClient } from './client.ts'
import { toClickhouseError } from './errors.ts'
import { quoteName, quoteTable } from './sql.ts'
import { batchColumn, type Column, toColumn } from './table.ts'

interface KeyColumn {
  readonly name: string
  readonly column: Column
  readonly kind: KeyKind
}
interface KeyRow {
  readonly _brokkr_row: string
  readonly _brokkr_change: string | null
  readonly _brokkr_order: string | null
  readonly _brokkr_operation: string
}
interface Shape {
  readonly columns: readonly string[]
  readonly change: KeyColumn
  readonly order: KeyColumn
  readonly hasTimes: boolean
}

/** Rows are at most as large as a message, and a page has few of them until it is known how large they are. */
const pageBytesMax = 256 << 20

export class ClickhousePolling implements PollingBackend {
  readonly #config: SourceConfig
  readonly #context: ConnectorContext
  readonly #relation: string
  #client: ClickhouseClient | undefined
  #shape: Shape | undefined

  constructor(config: SourceConfig, context: ConnectorContext) {
    this.#config = config
    this.#context = context
    this.#relation = config.query === undefined ? quoteTable(config.table ?? '') : `(${config.query.replace(/;\s*$/, '')}\n)`
  }

  async connect(): Promise<PollShape> {
    await this.close()
    const client = new ClickhouseClient(this.#config, this.#context)
    this.#client = client
    const columns = await client.rows<{ name: string; type: string }>({ sql: `describe table ${this.#relation}` })
    const [server] = await client.rows<{ id: string }>({ sql: 'select toString(serverUUID()) as id' }).catch(() => [])
    const key = (name: string): KeyColumn => {
      const found = columns.find((column) => column.name === name)
      if (found === undefined)
        throw new ConnectorError(
          { class: 'config', type: 'unknown' },
          `column ${name} does not exist: set changeTrackingColumn and orderByColumn`,
        )
      const column = toColumn({ ...found, default_kind: '' })
      return { name, column, kind: toKeyKind(column.base) }
    }
    const [change, order] = [key(this.#config.changeTrackingColumn), key(this.#config.orderByColumn)]
    const isTime = (name: string) => columns.some((column) => column.name === name && /\bDateTime/.test(column.type))
    const hasTimes = isTime('created_at') && isTime('updated_at')
    this.#shape = { columns: columns.map(({ name }) => name).filter((name) => name !== batchColumn), change, order, hasTimes }
    const place = this.#config.table ?? 'query'
    return { origin: `${server?.id ?? ''}/${client.database}/${place}`, change: change.kind, order: order.kind }
  }

  /** Names of the result differ from those of columns: the server takes an alias for a column of the same name. */
  async page(start: PageStart, limit: number): Promise<readonly PolledRow[]> {
    const { columns, change, order, hasTimes } = this.#shape!
    const row = `formatRowNoNewline('JSONEachRow', ${columns.map((name) => `q.${quoteName(name)} as ${quoteName(name)}`).join(', ')})`
    const operation = hasTimes ? `if(q.updated_at > q.created_at, 'update', 'insert')` : `'insert'`
    const keys = `${keyText(change)} as _brokkr_change, ${keyText(order)} as _brokkr_order`
    const { where, params } = toCondition(this.#shape!, start)
    const rows = await this.#ready().rows<KeyRow>({
      sql: `select ${row} as _brokkr_row, ${keys}, ${operation} as _brokkr_operation from ${this.#relation} as q where ${where} order by ${ref(change)}, ${ref(order)} limit ${limit} with ties`,
      params,
      answerBytesMax: pageBytesMax,
      signal: this.#context.signal,
    })
    return rows.map((found) => ({
      row: found._brokkr_row,
      change: found._brokkr_change,
      ord: found._brokkr_order,
      operation: found._brokkr_operation,
    }))
  }

  async lagSeconds(changeValue: string, orderValue: string): Promise<number | undefined> {
    const { change, order } = this.#shape!
    const { where, params } = toCondition(this.#shape!, { at: 'behind', change: changeValue, order: orderValue })
    const [found] = await this.#ready().rows<{ seconds: number }>({
      sql: `select dateDiff('second', ${ref(change)}, now()) as seconds from ${this.#relation} as q where ${where} order by ${ref(change)}, ${ref(order)} limit 1`,
      params,
    })
    return found?.seconds ?? 0
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.close()
  }

  toError(thrown: unknown, doing: string): ConnectorError {
    return toClickhouseError(thrown, doing)
  }

  #ready(): ClickhouseClient {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }
}

/** Values of other types than numbers, times and text are ordered by their text, as positions are: the server has its own order of UUIDs
 *  and enums. */
const ref = ({ name, kind, column }: KeyColumn): string =>
  kind === 'text' && column.base !== 'String' ? `toString(q.${quoteName(name)})` : `q.${quoteName(name)}`

/** The text of a time is in the zone of its column, unless it is moved to UTC. */
const keyText = (key: KeyColumn): string => (isDateTime(key) ? `toString(toTimeZone(${ref(key)}, 'UTC'))` : `toString(${ref(key)})`)

const isDateTime = ({ column }: KeyColumn): boolean => column.base.startsWith('DateTime')

function toKeyKind(base: string): KeyKind {
  if (/^(U?Int|Decimal|Float)/.test(base)) return 'number'
  return base.startsWith('Date') ? 'time' : 'text'
}

interface Condition {
  readonly where: string
  readonly params: Readonly<Record<string, string>>
}

function toCondition({ change, order }: Shape, start: PageStart): Condition {
  if (start.at === 'start') return { where: `isNotNull(${ref(change)})`, params: {} }
  if (start.at === 'nulls') {
    const isNull = `isNull(${ref(change)})`
    if (start.after === undefined) return { where: isNull, params: {} }
    return {
      where: `${isNull} and (${ref(order)} > ${param('order', order)} or isNull(${ref(order)}))`,
      params: { order: toParam(order, start.after) },
    }
  }
  // A rewind to a time without a row reads everything from that time on.
  if (start.order === '')
    return { where: `${ref(change)} >= ${param('change', change)}`, params: { change: toParam(change, start.change) } }
  const behind = `(${ref(change)}, ${ref(order)}) > (${param('change', change)}, ${param('order', order)})`
  return {
    // A row without an order value is found, so that it can be reported.
    where: order.column.isNullable ? `(${behind} or (${ref(change)} = ${param('change', change)} and isNull(${ref(order)})))` : behind,
    params: { change: toParam(change, start.change), order: toParam(order, start.order) },
  }
}

/** Times are parsed with all digits; the session's zone is UTC. */
function param(name: string, { column, kind }: KeyColumn): string {
  if (kind === 'text') return `{${name}:String}`
  if (kind === 'number') return `{${name}:${column.base}}`
  if (/^Date(32)?$/.test(column.base)) return `toDate32({${name}:String})`
  // More digits than the column has would leave a smaller range of years.
  return `toDateTime64({${name}:String}, ${/^DateTime64\((\d)/.exec(column.base)?.[1] ?? 9})`
}

const toParam = ({ kind }: KeyColumn, value: string): string => (kind === 'time' ? value.replace('T', ' ').replace(/Z$/, '') : value)
