// Restores the failed message from a dead letter. Pure.
import { Buffer } from 'node:buffer'
import { DeadLetter, type LetterError } from '@brokkr/contract/dataflow/dead-letter.ts'
import { isRecord, type Json, type JsonObject, type Metadata } from '@brokkr/contract/dataflow/language/json.ts'
import type { NewMessage } from '../../message/message.ts'

export interface StoredDeadLetter {
  readonly error: LetterError
  readonly original: JsonObject
}

/** Undefined if the record is no dead letter: other programs may write to the same topic or table. */
export function parseDeadLetter(json: Json | undefined): StoredDeadLetter | undefined {
  const parsed = DeadLetter.safeParse(json)
  // Taken from the parsed payload, not from the schema's result: numbers keep their digits.
  return parsed.success ? { error: parsed.data.error, original: (json as JsonObject)['original_message'] as JsonObject } : undefined
}

/** A dead letter without its payload cannot be replayed. */
export const hasNoPayload = ({ original }: StoredDeadLetter): boolean => original['omitted'] === true && Object.keys(original).length === 1

type MessageContent = Pick<NewMessage, 'raw' | 'json' | 'key' | 'metadata'>

/** Payload, key and metadata of the failed message. */
export function toMessageContent({ error, original }: StoredDeadLetter): MessageContent {
  const metadata = error.metadata as Metadata
  const key = typeof metadata['key'] === 'string' ? Buffer.from(metadata['key']) : undefined
  return { ...toPayload(original), key, metadata }
}

/** A payload that was not a JSON object is stored under `original_data`. */
function toPayload(original: JsonObject): Pick<MessageContent, 'raw' | 'json'> {
  const [name, ...others] = Object.keys(original)
  const value = name === undefined || others.length > 0 ? undefined : original[name]
  if (typeof value === 'string' && name === 'original_data') return { raw: Buffer.from(value) }
  if (typeof value === 'string' && name === 'original_data_base64') return { raw: Buffer.from(value, 'base64') }
  return isRecord(original) ? { json: original } : {}
}

/** Which dead letters a replay takes: by time of failure, and at most `max`. */
export interface Selection {
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
  readonly max?: number | undefined
}

export const isSelected = ({ error }: StoredDeadLetter, { fromMs, toMs }: Selection): boolean => {
  const atMs = Date.parse(error.timestamp)
  return (fromMs === undefined || atMs >= fromMs) && (toMs === undefined || atMs <= toMs)
}
