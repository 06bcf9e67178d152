// Queries of the polling source: keyset paging by (change, order), and rows as JSON text with all digits.
import type { TrinoSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/trino.ts'
import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import { type ConnectorContext, ConnectorError } from '../connector.ts'
import type { KeyKind } from '../polling/keys.ts'
import type { PageStart, PolledRow, PollingBackend, PollShape } from '../polling/polling-source.ts'
import { TrinoClient } from './client.ts'
import { toTrinoError } from './errors.ts'
import { quoteName, quotePlace, quoteText, toPlace } from './sql.ts'

interface SourceColumn {
  readonly name: string
  readonly type: string
}
interface Shape {
  readonly columns: readonly SourceColumn[]
  readonly change: SourceColumn
  readonly order: SourceColumn
}

export class TrinoPolling implements PollingBackend {
  readonly #config: SourceConfig
  readonly #context: ConnectorContext
  readonly #relation: string
  #client: TrinoClient | undefined
  #shape: Shape | undefined

  constructor(config: SourceConfig, context: ConnectorContext) {
    this.#config = config
    this.#context = context
    const place = toPlace(config.table ?? '', { catalog: config.catalog ?? '', schema: config.schema ?? '' })
    this.#relation = config.query === undefined ? quotePlace(place) : `(${config.query.replace(/;\s*$/, '')}\n)`
  }

  async connect(): Promise<PollShape> {
    await this.close()
    const client = await TrinoClient.open(this.#config, this.#context)
    this.#client = client
    const { columns } = await client.query(`SELECT * FROM ${this.#relation} AS q LIMIT 0`)
    const key = (name: string): SourceColumn => {
      const found = columns.find((column) => column.name === name.toLowerCase())
      if (found !== undefined) return found
      throw new ConnectorError(
        { class: 'config', type: 'unknown' },
        `column ${name} does not exist: set changeTrackingColumn and orderByColumn`,
      )
    }
    const [change, order] = [key(this.#config.changeTrackingColumn), key(this.#config.orderByColumn)]
    this.#shape = { columns, change, order }
    const { serverURL, catalog, schema, table = 'query' } = this.#config
    return { origin: `${new URL(serverURL).host}/${catalog}/${schema}/${table}`, change: toKeyKind(change), order: toKeyKind(order) }
  }

  async page(start: PageStart, limit: number): Promise<readonly PolledRow[]> {
    const { columns, change, order } = this.#shape!
    const list = [...columns.map(selectText), `${keyText(change)} AS k1`, `${keyText(order)} AS k2`].join(', ')
    const sql = `SELECT ${list} FROM ${this.#relation} AS q WHERE ${toCondition(this.#shape!, start)} ORDER BY ${ref(change)}, ${ref(order)} FETCH FIRST ${limit} ROWS WITH TIES`
    const { rows } = await this.#ready().query(sql, { signal: this.#context.signal })
    return rows.map((values) => ({
      row: `{${columns.map(({ name, type }, at) => `${JSON.stringify(name)}:${valueText(type, values[at] ?? null)}`).join(',')}}`,
      change: keyValue(values[columns.length] ?? null),
      ord: keyValue(values[columns.length + 1] ?? null),
    }))
  }

  async lagSeconds(changeValue: string, orderValue: string): Promise<number | undefined> {
    const { change } = this.#shape!
    if (!change.type.startsWith('timestamp')) return undefined
    const where = toCondition(this.#shape!, { at: 'behind', change: changeValue, order: orderValue })
    const { rows } = await this.#ready().query(
      `SELECT date_diff('second', CAST(min(${ref(change)}) AS timestamp(3) with time zone), current_timestamp) FROM ${this.#relation} AS q WHERE ${where}`,
    )
    return Number(rows[0]?.[0] ?? 0)
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.close()
  }

  toError(thrown: unknown, doing: string): ConnectorError {
    return toTrinoError(thrown, doing)
  }

  #ready(): TrinoClient {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }
}

const ref = ({ name }: SourceColumn): string => `q.${quoteName(name)}`
const isZoned = (type: string): boolean => /^timestamp.*with time zone$/.test(type)

/** Zones become UTC, and nested values JSON with the names of their fields. */
function selectText(column: SourceColumn): string {
  if (isZoned(column.type)) return `${ref(column)} AT TIME ZONE 'UTC'`
  return /^(array|map|row)\b/.test(column.type) ? `json_format(CAST(${ref(column)} AS json))` : ref(column)
}

const keyText = (column: SourceColumn): string =>
  `CAST(${isZoned(column.type) ? `${ref(column)} AT TIME ZONE 'UTC'` : ref(column)} AS varchar)`

function toKeyKind({ type }: SourceColumn): KeyKind {
  if (/^(tinyint|smallint|integer|bigint|real|double|decimal)/.test(type)) return 'number'
  return /^(timestamp|date|time)/.test(type) ? 'time' : 'text'
}

function toCondition({ change, order }: Shape, start: PageStart): string {
  if (start.at === 'start') return `${ref(change)} IS NOT NULL`
  if (start.at === 'nulls') {
    const isNull = `${ref(change)} IS NULL`
    return start.after === undefined ? isNull : `${isNull} AND (${ref(order)} > ${literal(order, start.after)} OR ${ref(order)} IS NULL)`
  }
  const value = literal(change, start.change)
  // A rewind to a time without a row reads everything from that time on.
  if (start.order === '') return `${ref(change)} >= ${value}`
  // A row without an order value is found, so that it can be reported.
  const isBehind = `(${ref(order)} > ${literal(order, start.order)} OR ${ref(order)} IS NULL)`
  return `(${ref(change)} > ${value} OR (${ref(change)} = ${value} AND ${isBehind}))`
}

/** Texts of times are as positions have them: with T and Z. */
function literal(column: SourceColumn, value: string): string {
  if (toKeyKind(column) !== 'time') return `CAST(${quoteText(value)} AS ${column.type})`
  const text = value.replace('T', ' ').replace(/(Z| UTC)$/, '')
  return `CAST(${quoteText(isZoned(column.type) ? `${text} UTC` : text)} AS ${column.type})`
}

/** Keys are cast to text; times in UTC end with Z, as positions have them. */
const keyValue = (value: Json): string | null => (typeof value === 'string' ? value.replace(/ UTC$/, 'Z') : null)

/** JSON text of a value as the server sends it. */
export function valueText(type: string, value: Json): string {
  if (value === null) return 'null'
  if (/^(array|map|row)\b/.test(type) || type === 'json') return typeof value === 'string' ? value : JSON.stringify(value)
  if (type.startsWith('decimal') && typeof value === 'string') return value
  if (type.startsWith('timestamp') && typeof value === 'string') return JSON.stringify(value.replace(' UTC', 'Z').replace(' ', 'T'))
  return JSON.stringify(value)
}
