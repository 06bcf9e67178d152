// debeziumUnwrap: replaces a change event with its row; the kind of change goes to the metadata.
import { cloneJson, isRecord, type Json, type JsonObject, type Metadata, setKey, valueAt } from '@brokkr/contract/dataflow/language/json.ts'
import type { TransformConfig } from '@brokkr/contract/dataflow/spec/transforms.ts'
import { parsePayload } from '../message/json.ts'
import { getPayload, isEmpty, type Message, withMetadata, withPayload } from '../message/message.ts'
import { dropped, type Transform, TransformError } from './transform.ts'

type Config = TransformConfig<'debeziumUnwrap'>

export const debeziumUnwrap: Transform<'debeziumUnwrap'> = {
  type: 'debeziumUnwrap',
  dropReason: 'tombstone',
  takesNonJson: true,
  build: (config) => (message) => {
    if (isEmpty(message)) return config.inferDeleteFromTombstone ? inferDelete(message, config) : dropped
    const payload = getPayload(message)
    if (Array.isArray(payload)) throw new TransformError('debeziumUnwrap', '$', 'is an array')
    const envelope = findEnvelope(payload)
    return envelope === undefined ? [message] : unwrap(message, envelope, config)
  },
}

interface Envelope {
  readonly event: JsonObject
  /** Prefix of paths, for errors. */
  readonly prefix: string
}

function findEnvelope(payload: Json | undefined): Envelope | undefined {
  const inner = valueAt(payload, 'payload')
  if (isRecord(inner) && valueAt(inner, 'op') !== undefined) return { event: inner, prefix: 'payload.' }
  const isRoot = valueAt(payload, 'op') !== undefined && valueAt(payload, 'source') !== undefined
  return isRoot ? { event: payload as JsonObject, prefix: '' } : undefined
}

/** t (truncate) and m (message) concern no row. */
const withoutRow = new Set<Json | undefined>(['t', 'm'])

function unwrap(message: Message, { event, prefix }: Envelope, config: Config): readonly Message[] {
  const op = valueAt(event, 'op')
  if (withoutRow.has(op)) return dropped
  const operation = toOperation(op, config)
  if (operation === undefined) throw new TransformError('debeziumUnwrap', `${prefix}op`, 'is not a known operation')
  const half = operation === 'delete' ? 'before' : 'after'
  const row = valueAt(event, half)
  if (!isRecord(row)) throw new TransformError('debeziumUnwrap', `${prefix}${half}`, 'is not an object')
  const source = valueAt(event, 'source')
  const payload = withMarkers(row, op as string, source, config, message.isOwned)
  const metadata = { ...message.metadata, ...sourceMetadata(source, config), operation, ...toIdMetadata(row) }
  return [withMetadata(withPayload(message, payload, message.isOwned), metadata)]
}

function toOperation(op: Json | undefined, config: Config): string | undefined {
  if (op === 'c') return 'insert'
  if (op === 'u') return 'update'
  if (op === 'r') return config.snapshotOperation
  return op === 'd' ? 'delete' : undefined
}

const toIdMetadata = (row: JsonObject): Metadata => {
  const id = valueAt(row, 'id')
  return id === undefined || id === null ? {} : { id: cloneJson(id) }
}

function withMarkers(row: JsonObject, op: string, source: Json | undefined, config: Config, isOwned: boolean): JsonObject {
  if (!config.addOperationFields && config.addSourceFields.length === 0) return row
  const marked = isOwned ? row : { ...row }
  for (const field of config.addSourceFields) {
    const value = valueAt(source, field)
    if (value !== undefined) setKey(marked, `source_${field}`, cloneJson(value)) // the metadata may hold it too
  }
  if (!config.addOperationFields) return marked
  setKey(marked, '__op', op)
  setKey(marked, '__deleted', op === 'd' ? 'true' : 'false')
  return marked
}

function sourceMetadata(source: Json | undefined, config: Config): Metadata {
  if (!config.includeSourceInMetadata || !isRecord(source)) return {}
  return Object.fromEntries(Object.entries(source).map(([key, value]) => [`source_${key}`, value]))
}

/** A tombstone only identifies the deleted row: its key becomes the row. */
function inferDelete(message: Message, config: Config): readonly Message[] {
  const key = message.key === undefined ? undefined : parsePayload(message.key)
  const row = isRecord(valueAt(key, 'payload')) ? valueAt(key, 'payload') : key
  if (!isRecord(row)) return dropped
  const payload = withMarkers(row, 'd', undefined, config, true)
  return [withMetadata(withPayload(message, payload, true), { ...message.metadata, operation: 'delete', ...toIdMetadata(row) })]
}
