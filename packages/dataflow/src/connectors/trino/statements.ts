// Builds insert statements from records, each at most as long as the server accepts. Pure. A record that cannot be written is named by
// its index before anything is sent.
import type { TrinoSink } from '@brokkr/contract/dataflow/connectors/trino.ts'
import { isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withoutValues } from '../../message/message.ts'
import { ConnectorError, type Rec } from '../connector.ts'
import { toRawColumns } from '../raw-columns.ts'
import { toLiteral } from './literals.ts'
import { quoteName } from './sql.ts'
import type { Columns } from './table.ts'

export type RowConfig = Pick<TrinoSink, 'unknownFields' | 'rawMode' | 'flattenMetadataColumns' | 'flattenMetadataColumnsPrefix'>

export interface InsertStatement {
  readonly sql: string
  readonly records: readonly Rec[]
}

/** Limit of a statement's text; the server's default is a million characters. */
const textMax = 900_000

export function buildInserts(batch: readonly Rec[], table: string, columns: Columns, config: RowConfig): InsertStatement[] {
  const head = `INSERT INTO ${table} (${[...columns.keys()].map(quoteName).join(', ')}) VALUES\n`
  const statements: InsertStatement[] = []
  let rows: string[] = []
  let records: Rec[] = []
  let length = head.length
  const finish = () => {
    if (rows.length > 0) statements.push({ sql: head + rows.join(',\n'), records })
    rows = []
    records = []
    length = head.length
  }
  for (const [index, record] of batch.entries()) {
    const row = toRow(record, index, columns, config)
    withoutValues(record)
    const rowBytes = Buffer.byteLength(row)
    if (head.length + rowBytes > textMax) throw refuse(index, `the row needs ${rowBytes} bytes of statement text, more than ${textMax}`)
    if (length + rowBytes + 2 > textMax) finish()
    rows.push(row)
    records.push(record)
    length += rowBytes + 2
  }
  finish()
  return statements
}

function toRow(record: Rec, index: number, columns: Columns, config: RowConfig): string {
  const fields = toFields(record, index, config)
  if (config.unknownFields === 'deadLetter' || (config.unknownFields === 'addColumn' && !config.rawMode))
    for (const key of Object.keys(fields)) if (!columns.has(key)) throw refuse(index, `no column for the field ${key}`)
  const values = [...columns.values()].map((column) => {
    const literal = toLiteral(column, Object.hasOwn(fields, column.name) ? fields[column.name] : undefined)
    if ('problem' in literal) throw refuse(index, `the value of ${column.name} ${literal.problem}`)
    return literal.sql
  })
  return `(${values.join(', ')})`
}

/** Fields that a record writes, by the names of their columns. */
export function toFields(record: Rec, index: number, config: RowConfig): JsonObject {
  const given = toGivenFields(record, index, config)
  return Object.keys(given).every((key) => key === key.toLowerCase()) ? given : toLowerNames(given, index)
}

/** Names of columns are lower case, whatever a statement says. */
function toLowerNames(given: JsonObject, index: number): JsonObject {
  const fields: JsonObject = {}
  for (const [key, value] of Object.entries(given)) {
    const name = key.toLowerCase()
    if (Object.hasOwn(fields, name)) throw refuse(index, `several fields belong to the column ${name}: names differ in case alone`)
    setKey(fields, name, value)
  }
  return fields
}

function toGivenFields(record: Rec, index: number, config: RowConfig): JsonObject {
  if (config.rawMode) {
    const columns = toRawColumns(record, { ...config, upsertMode: false, conflictKey: [] }, index)
    return Object.fromEntries(Object.entries(columns).map(([name, value]) => [name, asText(name, value)]))
  }
  const payload = getPayload(record)
  if (!isRecord(payload)) throw refuse(index, 'the payload is not an object')
  return payload
}

/** In raw mode payload and metadata are JSON texts. */
const asText = (name: string, value: Json): Json =>
  name === 'data' || name === '_metadata' || (typeof value === 'object' && value !== null) ? JSON.stringify(value) : value

const refuse = (recordIndex: number, message: string): ConnectorError =>
  new ConnectorError({ class: 'record', type: 'invalid_data', recordIndex }, message)
