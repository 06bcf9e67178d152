// One change of a table to the messages of a flow. Pure. A row whose key changed is the end of one and the beginning of another.
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { OldTuple, PgMessage, Relation, RelationColumn, Value } from './pgoutput.ts'
import { rowJson, valueJson } from './postgresql-values.ts'

export interface ChangeSettings {
  readonly envelopeFormat: 'row' | 'debezium'
  readonly primaryKeyColumn?: string | undefined
  readonly includeColumns?: readonly string[] | undefined
  readonly excludeColumns?: readonly string[] | undefined
}
export interface ChangePlace {
  readonly lsn: string
  readonly xid?: number
  readonly commitTime?: string
  readonly isSnapshot: boolean
  readonly database: string
}
export interface Change {
  readonly text: string
  readonly key: string | undefined
  readonly metadata: JsonObject
}
type Operation = 'insert' | 'update' | 'delete'
type RowChange = Extract<PgMessage, { kind: 'insert' | 'update' | 'delete' }>

export function changesOf(message: RowChange, relation: Relation, settings: ChangeSettings, place: ChangePlace): Change[] {
  if (message.kind === 'insert') return [change('insert', relation, undefined, message.after, settings, place)]
  if (message.kind === 'delete') return [change('delete', relation, oldRow(message.before, relation), undefined, settings, place)]
  const before = message.before === undefined ? undefined : oldRow(message.before, relation)
  const after = filled(message.after, message.before)
  if (before !== undefined && hasMoved(relation, before, after, settings))
    return [change('delete', relation, before, undefined, settings, place), change('insert', relation, undefined, after, settings, place)]
  return [change('update', relation, before, after, settings, place)]
}

export const snapshotChange = (relation: Relation, row: readonly Value[], settings: ChangeSettings, place: ChangePlace): Change =>
  change('insert', relation, undefined, row, settings, place)

/** The columns of the identity alone say something in a key tuple. */
const oldRow = ({ kind, values }: OldTuple, relation: Relation): Value[] =>
  kind === 'O' ? [...values] : values.map((value, index) => (relation.columns[index]?.isKey === true ? value : undefined))

/** A large value that did not change is in the old row where the table keeps it whole. */
const filled = (after: readonly Value[], before: OldTuple | undefined): Value[] =>
  after.map((value, index) => (value === undefined && before?.kind === 'O' ? before.values[index] : value))

function hasMoved(relation: Relation, before: readonly Value[], after: readonly Value[], settings: ChangeSettings): boolean {
  return idColumns(relation, settings).some((index) => before[index] !== undefined && before[index] !== after[index])
}

function change(
  operation: Operation,
  relation: Relation,
  before: readonly Value[] | undefined,
  after: readonly Value[] | undefined,
  settings: ChangeSettings,
  place: ChangePlace,
): Change {
  const row = after ?? before ?? []
  const columns = relation.columns.filter((column) => isWanted(column, settings))
  const json = (values: readonly Value[] | undefined) =>
    values === undefined ? 'null' : rowJson(columns, wantedValues(relation, values, settings))
  const id = idOf(relation, row, settings)
  const unchanged = relation.columns.filter(
    (column, index) => after !== undefined && after[index] === undefined && isWanted(column, settings),
  )
  const text = settings.envelopeFormat === 'row' ? json(row) : envelope(operation, json(before), json(after), relation, place)
  return {
    text,
    key: id === undefined ? undefined : String(id),
    metadata: {
      schema: relation.schema,
      table: relation.table,
      ...(id === undefined ? {} : { id }),
      operation,
      lsn: place.lsn,
      ...(place.xid === undefined ? {} : { xid: place.xid }),
      ...(place.commitTime === undefined ? {} : { commit_time: place.commitTime }),
      ...(place.isSnapshot ? { snapshot: true } : {}),
      ...(unchanged.length === 0 ? {} : { unchanged: unchanged.map(({ name }) => name) }),
    },
  }
}

const isWanted = ({ name }: RelationColumn, { includeColumns, excludeColumns }: ChangeSettings): boolean =>
  (includeColumns === undefined || includeColumns.includes(name)) && excludeColumns?.includes(name) !== true

const wantedValues = (relation: Relation, values: readonly Value[], settings: ChangeSettings): Value[] =>
  values.filter((_value, index) => relation.columns[index] !== undefined && isWanted(relation.columns[index], settings))

/** The named column, else the identity, else `id`; a table whose identity is the whole row has none but `id`. */
function idColumns(relation: Relation, { primaryKeyColumn }: ChangeSettings): number[] {
  const named = (name: string) => relation.columns.flatMap((column, index) => (column.name === name ? [index] : []))
  if (primaryKeyColumn !== undefined) return named(primaryKeyColumn)
  const identity = relation.columns.flatMap(({ isKey }, index) => (isKey ? [index] : []))
  return identity.length > 0 && relation.identity !== 'f' ? identity : named('id')
}

function idOf(relation: Relation, row: readonly Value[], settings: ChangeSettings): string | number | undefined {
  const parts = idColumns(relation, settings).map((index) => {
    const value = row[index]
    return value === undefined || value === null ? undefined : { value, type: relation.columns[index]!.type }
  })
  if (parts.length === 0 || parts.some((part) => part === undefined)) return undefined
  const known = parts as { value: string; type: number }[]
  if (known.length > 1) return `[${known.map(({ value, type }) => valueJson(type, value)).join(',')}]`
  const [{ value, type }] = known as [{ value: string; type: number }]
  const isInteger = [20, 21, 23].includes(type) && Number.isSafeInteger(Number(value))
  return isInteger ? Number(value) : value
}

const operations = { insert: 'c', update: 'u', delete: 'd' } as const

function envelope(operation: Operation, before: string, after: string, relation: Relation, place: ChangePlace): string {
  const source = JSON.stringify({
    connector: 'postgresql',
    db: place.database,
    schema: relation.schema,
    table: relation.table,
    lsn: place.lsn,
    ...(place.xid === undefined ? {} : { txId: place.xid }),
    ...(place.commitTime === undefined ? {} : { ts_ms: Date.parse(place.commitTime) }),
    snapshot: place.isSnapshot ? 'true' : 'false',
  })
  const op = place.isSnapshot ? 'r' : operations[operation]
  return `{"payload":{"op":"${op}","before":${before},"after":${after},"source":${source}}}`
}
