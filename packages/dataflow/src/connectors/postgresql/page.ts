// Statements of a polling source. Pure. Keyset paging by (change, order): a page starts after the last row of the previous one, so rows
// with equal keys belong to one page. Text is ordered by bytes, so that positions compare here as on the server.
import type { KeyKind } from '../polling/keys.ts'
import { quoteName } from './sql.ts'

export interface KeyColumn {
  readonly name: string
  readonly type: string
  readonly kind: KeyKind
}

export interface PageShape {
  /** Quoted table, or the query in parentheses. */
  readonly relation: string
  readonly change: KeyColumn
  /** Used if the change column is null: updated_at is null in many tables until the first update. */
  readonly fallback: KeyColumn | undefined
  readonly order: KeyColumn
  /** Whether created_at and updated_at exist as time columns. */
  readonly hasCreated: boolean
  readonly hasUpdated: boolean
  readonly limit: number
}

/** category of pg_type: N numbers, D dates and times. */
export const toKeyKind = (category: string): KeyKind => (category === 'N' ? 'number' : category === 'D' ? 'time' : 'text')

/** behind: strictly after a row · overlap: up to a row, from a time or after another row · nulls: rows without a change value, all or
 *  after a row. */
export type From =
  | { readonly at: 'behind' }
  | { readonly at: 'start' }
  | { readonly at: 'overlap'; readonly begin: 'time' | 'row' }
  | { readonly at: 'nulls'; readonly isFirst: boolean }

/** A page ends with the row that exceeds this many bytes and the rows with equal keys. */
const pageBytesMax = 1 << 20
/** Limit of a page that rows with equal keys extend. */
const equalKeysBytesMax = 16 << 20
/** Rows with equal keys beyond the page's limit. */
export const equalKeysMax = 10_000

/** Beyond the limit `row` is null. The server computes the sum, so that a page of large rows is never sent as a whole. */
export function pageStatement(shape: PageShape, from: From): string {
  const before = (unit: 'groups' | 'rows') =>
    `coalesce(sum(octet_length(p.payload)) over (order by p.k1, p.k2 ${unit} between unbounded preceding and 1 preceding), 0)`
  const isSent = `${before('groups')} < ${pageBytesMax} and ${before('rows')} < ${equalKeysBytesMax}`
  const columns = `case when ${isSent} then p.payload end as row, p.change, p.ord, p.operation`
  return `select ${columns} from (${rowsStatement(shape, from)}) as p order by p.k1, p.k2 limit ${shape.limit + equalKeysMax}`
}

/** Keys only, for rows of which most were emitted. */
export const keysStatement = (shape: PageShape, from: From): string =>
  `select p.change, p.ord from (${rowsStatement(shape, from, 'keys')}) as p order by p.k1, p.k2`

/** One select per change column: an index on (updated_at, id) serves one, an index on (created_at, id) the other; no index serves
 *  coalesce(updated_at, created_at). */
function rowsStatement(shape: PageShape, from: From, content: Content = 'rows'): string {
  const { change, fallback, limit } = shape
  const own = `q.${quoteName(change.name)}`
  if (fallback === undefined) return selectRows(shape, own, condition(shape, from, own), content)
  const other = `q.${quoteName(fallback.name)}${fallback.type === change.type ? '' : `::${change.type}`}`
  if (from.at === 'nulls') return selectRows(shape, own, `${other} is null and ${condition(shape, from, own)}`, content)
  const parts = [
    selectRows(shape, own, condition(shape, from, own), content),
    selectRows(shape, other, `${own} is null and ${condition(shape, from, other)}`, content),
  ]
  return `select * from ((${parts.join(') union all (')})) as b order by b.k1, b.k2 fetch first ${limit} rows with ties`
}

type Content = 'rows' | 'keys'

function selectRows(shape: PageShape, changed: string, where: string, content: Content): string {
  const { relation, change, order, hasCreated, hasUpdated, limit } = shape
  const operation = hasCreated && hasUpdated ? `case when q."updated_at" > q."created_at" then 'update' else 'insert' end` : `'insert'`
  const ordered = `q.${quoteName(order.name)}`
  const keys = `(${changed})::text as change, ${ordered}::text as ord, ${sortable(changed, change)} as k1, ${sortable(ordered, order)} as k2`
  const columns = content === 'keys' ? keys : `row_to_json(q)::text as payload, ${operation} as operation, ${keys}`
  return `select ${columns} from ${relation} as q where ${where} order by k1, k2 fetch first ${limit} rows with ties`
}

function condition({ change, order }: PageShape, from: From, changedColumn: string): string {
  const [changed, ordered] = [sortable(changedColumn, change), sortable(`q.${quoteName(order.name)}`, order)]
  const behind = (first: number) => `(${changed}, ${ordered}) > (${parameter(first, change)}, ${parameter(first + 1, order)})`
  if (from.at === 'behind') return behind(1)
  if (from.at === 'overlap') {
    const begin = from.begin === 'row' ? behind(3) : `${changed} >= ${parameter(1, change)} - $3::interval`
    return `(${changed}, ${ordered}) <= (${parameter(1, change)}, ${parameter(2, order)}) and ${begin}`
  }
  if (from.at === 'start') return `${changedColumn} is not null`
  return `${changedColumn} is null${from.isFirst ? '' : ` and ${ordered} > ${parameter(1, order)}`}`
}

const sortable = (expression: string, { kind, type }: KeyColumn): string =>
  kind === 'text' && type !== 'uuid' ? `(${expression})::text collate "C"` : `(${expression})`
const parameter = (number: number, { kind, type }: KeyColumn): string =>
  kind === 'text' && type !== 'uuid' ? `$${number}::text collate "C"` : `$${number}::${type}`
