// Converts a change of a table to messages. Pure. A changed key becomes a delete of the old row and an insert of the new one.
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { type JsonColumn, jsonColumn, rowJson, valueJson } from '../postgresql/values.ts'
import type { OldTuple, PgMessage, Relation, RelationColumn, Value } from './pgoutput.ts'

export interface ChangeSettings {
  readonly envelopeFormat: 'row' | 'debezium'
  readonly primaryKeyColumn?: string | undefined
  readonly includeColumns?: readonly string[] | undefined
  readonly excludeColumns?: readonly string[] | undefined
}
export interface ChangeOrigin {
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

export function toChanges(message: RowChange, relation: Relation, settings: ChangeSettings, place: ChangeOrigin): Change[] {
  if (message.kind === 'insert') return [buildChange('insert', relation, undefined, message.after, settings, place)]
  if (message.kind === 'delete') return [buildChange('delete', relation, toOldRow(message.before, relation), undefined, settings, place)]
  const before = message.before === undefined ? undefined : toOldRow(message.before, relation)
  const after = fillUnchanged(message.after, message.before)
  if (before !== undefined && hasKeyChanged(relation, before, after, settings))
    return [
      buildChange('delete', relation, before, undefined, settings, place),
      buildChange('insert', relation, undefined, after, settings, place),
    ]
  return [buildChange('update', relation, before, after, settings, place)]
}

export const toSnapshotChange = (relation: Relation, row: readonly Value[], settings: ChangeSettings, place: ChangeOrigin): Change =>
  buildChange('insert', relation, undefined, row, settings, place)

/** In a key tuple only the columns of the identity have values. */
const toOldRow = ({ kind, values }: OldTuple, relation: Relation): Value[] =>
  kind === 'O' ? [...values] : values.map((value, index) => (relation.columns[index]?.isKey === true ? value : undefined))

/** An unchanged large value is taken from the old row if the table's identity is full. */
const fillUnchanged = (after: readonly Value[], before: OldTuple | undefined): Value[] =>
  after.map((value, index) => (value === undefined && before?.kind === 'O' ? before.values[index] : value))

function hasKeyChanged(relation: Relation, before: readonly Value[], after: readonly Value[], settings: ChangeSettings): boolean {
  return getShape(relation, settings).ids.some(({ at }) => before[at] !== undefined && before[at] !== after[at])
}

function buildChange(
  operation: Operation,
  relation: Relation,
  before: readonly Value[] | undefined,
  after: readonly Value[] | undefined,
  settings: ChangeSettings,
  place: ChangeOrigin,
): Change {
  const row = after ?? before ?? []
  const { columns, names, ids } = getShape(relation, settings)
  const json = (values: readonly Value[] | undefined) => (values === undefined ? 'null' : rowJson(columns, values))
  const id = buildId(ids, row)
  const text = settings.envelopeFormat === 'row' ? json(row) : buildEnvelope(operation, json(before), json(after), relation, place)
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

/** How rows of a relation are printed; built once per relation message. */
interface RowShape {
  readonly settings: ChangeSettings
  /** Columns that the flow includes. */
  readonly columns: readonly JsonColumn[]
  readonly names: readonly string[]
  readonly ids: readonly JsonColumn[]
}
const shapes = new WeakMap<Relation, RowShape>()

function getShape(relation: Relation, settings: ChangeSettings): RowShape {
  const cachedShape = shapes.get(relation)
  if (cachedShape?.settings === settings) return cachedShape
  const all = relation.columns.map((column, at) => ({ column, json: jsonColumn(column.name, column.type, at) }))
  const includedColumns = all.filter(({ column }) => isIncluded(column, settings))
  const shape = {
    settings,
    columns: includedColumns.map(({ json }) => json),
    names: includedColumns.map(({ column }) => column.name),
    ids: idColumns(relation, settings).map((at) => all[at]!.json),
  }
  shapes.set(relation, shape)
  return shape
}

const isIncluded = ({ name }: RelationColumn, { includeColumns, excludeColumns }: ChangeSettings): boolean =>
  (includeColumns === undefined || includeColumns.includes(name)) && excludeColumns?.includes(name) !== true

/** The configured column, else the identity, else `id`; with a full identity only `id`. */
function idColumns(relation: Relation, { primaryKeyColumn }: ChangeSettings): number[] {
  const findColumns = (name: string) => relation.columns.flatMap((column, index) => (column.name === name ? [index] : []))
  if (primaryKeyColumn !== undefined) return findColumns(primaryKeyColumn)
  const identity = relation.columns.flatMap(({ isKey }, index) => (isKey ? [index] : []))
  return identity.length > 0 && relation.identity !== 'f' ? identity : findColumns('id')
}

/** Undefined while a part of the key is unknown. */
function buildId(ids: readonly JsonColumn[], row: readonly Value[]): string | number | undefined {
  if (ids.length === 0 || ids.some(({ at }) => row[at] === undefined || row[at] === null)) return undefined
  if (ids.length > 1) return `[${ids.map(({ at, type }) => valueJson(type, row[at]!)).join(',')}]`
  const [{ at, type }] = ids as readonly [JsonColumn]
  const value = row[at]!
  const isInteger = (type === 20 || type === 21 || type === 23) && Number.isSafeInteger(Number(value))
  return isInteger ? Number(value) : value
}

const operations = { insert: 'c', update: 'u', delete: 'd' } as const

function buildEnvelope(operation: Operation, before: string, after: string, relation: Relation, place: ChangeOrigin): string {
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
