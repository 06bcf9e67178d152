// Raw mode: the payload goes to `data`, the metadata to `_metadata` or to separate columns; with upsert the key has its own column.
import { isRecord, type Json, type JsonObject, type Metadata } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload } from '../message/message.ts'
import { ConnectorError, type Rec } from './connector.ts'

export interface RawSettings {
  readonly flattenMetadataColumns: boolean
  readonly flattenMetadataColumnsPrefix?: string | undefined
  readonly upsertMode: boolean
  readonly conflictKey: readonly string[]
}

export function toRawColumns(record: Rec, settings: RawSettings, index: number): JsonObject {
  const payload = getPayload(record)
  if (payload === undefined && record.state !== 'opaque')
    throw new ConnectorError({ class: 'record', type: 'invalid_data', recordIndex: index }, 'the payload is nested too deep')
  const wrapped = unwrapped(payload)
  const metadata = wrapped?.metadata ?? plainMetadata(record.metadata)
  const data = wrapped === undefined ? (payload ?? toRawText(record)) : wrapped.value
  const keys =
    settings.upsertMode && isRecord(data) ? Object.fromEntries(settings.conflictKey.map((name) => [name, data[name] ?? null])) : {}
  const meta = settings.flattenMetadataColumns ? prefixed(metadata, settings.flattenMetadataColumnsPrefix ?? '') : { _metadata: metadata }
  return { ...keys, data, ...meta }
}

/** Exactly these two keys: a payload that merely has a field `value` is stored whole. */
function unwrapped(payload: Json | undefined): { value: Json; metadata: Json } | undefined {
  if (!isRecord(payload) || Object.keys(payload).length !== 2) return undefined
  const { value, _metadata } = payload
  return value === undefined || _metadata === undefined ? undefined : { value, metadata: _metadata }
}

const toRawText = (record: Rec): Json => (record.raw === undefined ? null : Buffer.from(record.raw).toString())

const plainMetadata = (metadata: Metadata): Json => JSON.parse(JSON.stringify(metadata)) as Json

const prefixed = (metadata: Json, prefix: string): JsonObject =>
  isRecord(metadata) ? Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`${prefix}${key}`, value])) : {}
