// Raw mode: the payload goes to `data`, the metadata to `_metadata` or to columns of their own; with an upsert the key has its column.
import { isRecord, type Json, type JsonObject, type Metadata } from '@brokkr/contract/dataflow/json.ts'
import { payloadOf } from '../message.ts'
import { ConnectorError, type Rec } from './connector.ts'

export interface RawSettings {
  readonly flattenMetadataColumns: boolean
  readonly flattenMetadataColumnsPrefix?: string | undefined
  readonly upsertMode: boolean
  readonly conflictKey: readonly string[]
}

export function rawColumns(record: Rec, settings: RawSettings, index: number): JsonObject {
  const payload = payloadOf(record)
  if (payload === undefined && record.state !== 'opaque')
    throw new ConnectorError({ class: 'record', type: 'invalid_data', recordIndex: index }, 'the payload is nested too deep')
  const opened = unwrapped(payload)
  const metadata = opened?.metadata ?? plainMetadata(record.metadata)
  const data = opened === undefined ? (payload ?? textOf(record)) : opened.value
  const keys =
    settings.upsertMode && isRecord(data) ? Object.fromEntries(settings.conflictKey.map((name) => [name, data[name] ?? null])) : {}
  const meta = settings.flattenMetadataColumns ? prefixed(metadata, settings.flattenMetadataColumnsPrefix ?? '') : { _metadata: metadata }
  return { ...keys, data, ...meta }
}

/** Exactly the two keys: a payload that merely has a field `value` is stored whole. */
function unwrapped(payload: Json | undefined): { value: Json; metadata: Json } | undefined {
  if (!isRecord(payload) || Object.keys(payload).length !== 2) return undefined
  const { value, _metadata } = payload
  return value === undefined || _metadata === undefined ? undefined : { value, metadata: _metadata }
}

const textOf = (record: Rec): Json => (record.raw === undefined ? null : Buffer.from(record.raw).toString())

const plainMetadata = (metadata: Metadata): Json => JSON.parse(JSON.stringify(metadata)) as Json

const prefixed = (metadata: Json, prefix: string): JsonObject =>
  isRecord(metadata) ? Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`${prefix}${key}`, value])) : {}
