// One change of a table to the messages of a flow. Pure. A row whose key changed is the end of one and the beginning of another.
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { OldTuple, PgMessage, Relation, RelationColumn, Value } from './pgoutput.ts'
import { type JsonColumn, jsonColumn, rowJson, valueJson } from './postgresql-values.ts'

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
  return shapeOf(relation, settings).ids.some(({ at }) => before[at] !== undefined && before[at] !== after[at])
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
  const { columns, names, ids } = shapeOf(relation, settings)
  const json = (values: readonly Value[] | undefined) => (values === undefined ? 'null' : rowJson(columns, values))
  const id = idOf(ids, row)
  const text = settings.envelopeFormat === 'row' ? json(row) : envelope(operation, json(before), json(after), relation, place)
  const metadata: JsonObject = { schema: relation.schema, table: relation.table }
  if (id !== undefined) metadata['id'] = id
  metadata['operation'] = operation
  metadata['lsn'] = place.lsn
  if (place.xid !== undefined) metadata['xid'] = place.xid
  if (place.commitTime !== undefined) metadata['commit_time'] = place.commitTime
  if (place.isSnapshot) metadata['snapshot'] = true
  if (after?.includes(undefined) === true) {
    const unchanged = names.filter((_name, index) => after[columns[index]!.at] === undefined)
    if (unchanged.length > 0) metadata['unchanged'] = unchanged
  }
  return { text, key: id === undefined ? undefined : String(id), metadata }
}

/** What every row of a table is printed by; made once per description that the server sends. */
interface RowShape {
  readonly settings: ChangeSettings
  /** Those that the flow wants. */
  readonly columns: readonly JsonColumn[]
  readonly names: readonly string[]
  readonly ids: readonly JsonColumn[]
}
const shapes = new WeakMap<Relation, RowShape>()

function shapeOf(relation: Relation, settings: ChangeSettings): RowShape {
  const known = shapes.get(relation)
  if (known?.settings === settings) return known
  const all = relation.columns.map((column, at) => ({ column, json: jsonColumn(column.name, column.type, at) }))
  const wanted = all.filter(({ column }) => isWanted(column, settings))
  const shape = {
    settings,
    columns: wanted.map(({ json }) => json),
    names: wanted.map(({ column }) => column.name),
    ids: idColumns(relation, settings).map((at) => all[at]!.json),
  }
  shapes.set(relation, shape)
  return shape
}

const isWanted = ({ name }: RelationColumn, { includeColumns, excludeColumns }: ChangeSettings): boolean =>
  (includeColumns === undefined || includeColumns.includes(name)) && excludeColumns?.includes(name) !== true

/** The named column, else the identity, else `id`; a table whose identity is the whole row has none but `id`. */
function idColumns(relation: Relation, { primaryKeyColumn }: ChangeSettings): number[] {
  const named = (name: string) => relation.columns.flatMap((column, index) => (column.name === name ? [index] : []))
  if (primaryKeyColumn !== undefined) return named(primaryKeyColumn)
  const identity = relation.columns.flatMap(({ isKey }, index) => (isKey ? [index] : []))
  return identity.length > 0 && relation.identity !== 'f' ? identity : named('id')
}

/** Undefined while a part of it is not known. */
function idOf(ids: readonly JsonColumn[], row: readonly Value[]): string | number | undefined {
  if (ids.length === 0 || ids.some(({ at }) => row[at] === undefined || row[at] === null)) return undefined
  if (ids.length > 1) return `[${ids.map(({ at, type }) => valueJson(type, row[at]!)).join(',')}]`
  const [{ at, type }] = ids as readonly [JsonColumn]
  const value = row[at]!
  const isInteger = (type === 20 || type === 21 || type === 23) && Number.isSafeInteger(Number(value))
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
