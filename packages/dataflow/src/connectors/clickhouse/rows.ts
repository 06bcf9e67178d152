// Converts records to lines of JSONEachRow. Pure. A record that cannot be written is named by its index before anything is sent.
import type { ClickhouseSink } from '@brokkr/contract/dataflow/connectors/clickhouse.ts'
import { isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, payloadText, withoutValues } from '../../message/message.ts'
import { ConnectorError, type Rec } from '../connector.ts'
import { toRawColumns } from '../raw-columns.ts'
import { batchColumn, type Column } from './table.ts'
import { fitValue } from './values.ts'

export type RowConfig = Pick<
  ClickhouseSink,
  'upsertMode' | 'conflictKey' | 'unknownFields' | 'rawMode' | 'flattenMetadataColumns' | 'flattenMetadataColumnsPrefix'
>
type Columns = ReadonlyMap<string, Column>

/** One line per record; `label` is the value of the batch column, if the table has one. */
export function toLines(batch: readonly Rec[], columns: Columns, config: RowConfig): string[] {
  return batch.map((record, index) => {
    const line = toLine(record, index, columns, config, batch.length === 1)
    // Only the line is kept.
    withoutValues(record)
    return line
  })
}

/** Adds the batch column to a line. */
export function withLabel(line: string, label: string): string {
  const rest = line.slice(1).trimStart()
  return `{"${batchColumn}":"${label}"${rest.startsWith('}') ? '' : ','}${rest}`
}

function toLine(record: Rec, index: number, columns: Columns, config: RowConfig, isAlone: boolean): string {
  const fields = toFields(record, index, config)
  const changed = new Map<string, Json>()
  let hasWholeNumber = false
  for (const key of Object.keys(fields)) {
    const column = columns.get(key)
    if (key === batchColumn) throw refuse(index, `the field ${batchColumn} is reserved`)
    if (column === undefined) {
      // A column that was to be added exists under this name and cannot be written.
      if (config.unknownFields === 'deadLetter' || (config.unknownFields === 'addColumn' && !config.rawMode))
        throw refuse(index, `no column for the field ${key}`)
      continue
    }
    const fitted = fitValue(column, fields[key]!)
    if ('problem' in fitted) throw refuse(index, `the value of ${key} ${fitted.problem}`)
    if (fitted.value !== fields[key]) changed.set(key, fitted.value)
    hasWholeNumber ||= typeof fitted.value === 'number' && /^U?Int/.test(column.base)
  }
  // As a row, it would bring the deleted row back.
  if (config.upsertMode && record.metadata['operation'] === 'delete')
    throw refuse(index, 'the record is a delete, and a clickhouse sink with upsertMode cannot delete: filter deletes')
  if (config.upsertMode)
    for (const key of config.conflictKey) if ((fields[key] ?? null) === null) throw refuse(index, `the key ${key} is missing or null`)
  // The server rejects a key that stands twice in the payload's text; the parsed payload has its last value.
  if (config.rawMode || changed.size > 0 || isAlone) return JSON.stringify(replaceValues(fields, changed))
  const text = payloadText(record)!.trimStart()
  // The server does not read 1.0 or 1e2 as an integer.
  return hasWholeNumber && /\d[.eE]/.test(text) ? JSON.stringify(fields) : text
}

function replaceValues(fields: JsonObject, changed: ReadonlyMap<string, Json>): JsonObject {
  if (changed.size === 0) return fields
  const copy: JsonObject = {}
  for (const key of Object.keys(fields)) setKey(copy, key, changed.get(key) ?? fields[key]!)
  return copy
}

/** Fields that a record writes. */
export function toFields(record: Rec, index: number, config: RowConfig): JsonObject {
  if (config.rawMode) return asTexts(toRawColumns(record, config, index), config)
  const payload = getPayload(record)
  if (!isRecord(payload)) throw refuse(index, 'the payload is not an object')
  return payload
}

/** In raw mode payload and metadata are JSON texts. */
function asTexts(columns: JsonObject, { conflictKey, upsertMode }: RowConfig): JsonObject {
  const keys = new Set(upsertMode ? conflictKey : [])
  return Object.fromEntries(
    Object.entries(columns).map(([name, value]) => {
      const isText = name === 'data' || name === '_metadata' || (typeof value === 'object' && value !== null)
      return [name, isText && !keys.has(name) ? JSON.stringify(value) : value]
    }),
  )
}

const refuse = (recordIndex: number, message: string): ConnectorError =>
  new ConnectorError({ class: 'record', type: 'invalid_data', recordIndex }, message)
