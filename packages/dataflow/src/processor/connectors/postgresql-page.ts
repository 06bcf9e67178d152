// The statements of a polling source. Pure. Keyset paging over (change, order): rows come in that order, and a page begins behind the
// last row of the one before. Texts order by bytes, so that positions compare here as they do there.
import { compareDecimals } from '@brokkr/contract/dataflow/decimal.ts'
import { quoted } from './sql.ts'

export interface KeyColumn {
  readonly name: string
  readonly type: string
  readonly kind: KeyKind
}
/** How values order: numbers, points in time, everything else by its text. */
export type KeyKind = 'number' | 'time' | 'text'

export interface PageShape {
  /** Quoted table, or the query in brackets. */
  readonly relation: string
  readonly change: KeyColumn
  readonly order: KeyColumn
  /** Whether the columns created_at, updated_at exist as times. */
  readonly hasCreated: boolean
  readonly hasUpdated: boolean
  readonly limit: number
}

/** category of pg_type: N numbers, D dates and times. */
export const kindOf = (category: string): KeyKind => (category === 'N' ? 'number' : category === 'D' ? 'time' : 'text')

/** behind: strictly behind a row · since: from a time on, for the overlap · nulls: rows without a change value, behind a row or all. */
export type From = { at: 'behind' } | { at: 'since' } | { at: 'nulls'; isFirst: boolean } | { at: 'start' }

export function pageStatement(shape: PageShape, from: From): string {
  const { relation, change, order, limit } = shape
  const [changed, ordered] = [sortable(changeOf(shape), change), sortable(`q.${quoted(order.name)}`, order)]
  const operation =
    shape.hasCreated && shape.hasUpdated ? `case when q."updated_at" > q."created_at" then 'update' else 'insert' end` : `'insert'`
  const columns = `row_to_json(q)::text as row, (${changeOf(shape)})::text as change, q.${quoted(order.name)}::text as ord, ${operation} as operation`
  return `select ${columns} from ${relation} as q where ${condition(shape, from)} order by ${changed}, ${ordered} limit ${limit}`
}

function condition(shape: PageShape, from: From): string {
  const { change, order } = shape
  const [changed, ordered] = [sortable(changeOf(shape), change), sortable(`q.${quoted(order.name)}`, order)]
  const isChanged = `(${changeOf(shape)}) is not null`
  if (from.at === 'behind') return `(${changed}, ${ordered}) > (${parameter(1, change)}, ${parameter(2, order)})`
  if (from.at === 'since') return `${changed} >= ${parameter(1, change)} - $2::interval`
  if (from.at === 'start') return isChanged
  return `not (${isChanged})${from.isFirst ? '' : ` and ${ordered} > ${parameter(1, order)}`}`
}

/** updated_at is null in many tables until a row is first changed. */
function changeOf({ change, hasCreated }: PageShape): string {
  const own = `q.${quoted(change.name)}`
  return change.name === 'updated_at' && hasCreated ? `coalesce(${own}, q."created_at")` : own
}

const sortable = (expression: string, { kind, type }: KeyColumn): string =>
  kind === 'text' && type !== 'uuid' ? `(${expression})::text collate "C"` : `(${expression})`
const parameter = (number: number, { kind, type }: KeyColumn): string =>
  kind === 'text' && type !== 'uuid' ? `$${number}::text collate "C"` : `$${number}::${type}`

export function compareKeys(kind: KeyKind, left: string, right: string): number {
  if (left === right) return 0
  if (kind === 'number' && isFinitePair(left, right)) return compareDecimals(left, right)
  const [a, b] = kind === 'time' ? [timeKey(left), timeKey(right)] : [left, right]
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** NaN and the infinities have no digits; they order by their text, which is as good as any. */
const isFinitePair = (...values: string[]): boolean => values.every((value) => /^-?[0-9.]+(e[+-]?[0-9]+)?$/i.test(value))

/** One width for the fraction, so that .1 lies before .15. */
function timeKey(text: string): string {
  const [, head = text, fraction = ''] = /^([^.]*?)(?:\.([0-9]+))?(?:Z|[+-]00(?::?00)?)?$/.exec(text.replace(' ', 'T')) ?? []
  return `${head}.${fraction.padEnd(9, '0')}`
}

/** As the state keeps it and people read it: 2026-01-02T03:04:05.123456Z. The session's zone is UTC. */
export const timeText = (kind: KeyKind, text: string): string => (kind === 'time' ? text.replace(' ', 'T').replace(/\+00$/, 'Z') : text)
