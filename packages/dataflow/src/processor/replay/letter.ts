// A dead letter read back: what it holds becomes the message that failed, as near to it as the letter tells. Pure.
import { Buffer } from 'node:buffer'
import { DeadLetter, type LetterError } from '@brokkr/contract/dataflow/envelope.ts'
import { isRecord, type Json, type JsonObject, type Metadata } from '@brokkr/contract/dataflow/json.ts'
import type { NewMessage } from '../message.ts'

export interface Letter {
  readonly error: LetterError
  readonly original: JsonObject
}

/** Undefined when it is none: others may write to the same place. */
export function readLetter(json: Json | undefined): Letter | undefined {
  const parsed = DeadLetter.safeParse(json)
  // The original is taken from the text as it was read: numbers keep their digits.
  return parsed.success ? { error: parsed.data.error, original: (json as JsonObject)['original_message'] as JsonObject } : undefined
}

/** A letter without its payload tells what happened and nothing that could be written. */
export const isOmitted = ({ original }: Letter): boolean => original['omitted'] === true && Object.keys(original).length === 1

type Content = Pick<NewMessage, 'raw' | 'json' | 'key' | 'metadata'>

/** Payload, key and metadata of what failed. */
export function contentOf({ error, original }: Letter): Content {
  const metadata = error.metadata as Metadata
  const key = typeof metadata['key'] === 'string' ? Buffer.from(metadata['key']) : undefined
  return { ...payloadOf(original), key, metadata }
}

/** A payload that was no JSON object stands under a name of ours. */
function payloadOf(original: JsonObject): Pick<Content, 'raw' | 'json'> {
  const [name, ...others] = Object.keys(original)
  const value = name === undefined || others.length > 0 ? undefined : original[name]
  if (typeof value === 'string' && name === 'original_data') return { raw: Buffer.from(value) }
  if (typeof value === 'string' && name === 'original_data_base64') return { raw: Buffer.from(value, 'base64') }
  return isRecord(original) ? { json: original } : {}
}

/** Which letters a replay takes: by the time of their failure, and at most so many. */
export interface Selection {
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
  readonly max?: number | undefined
}

export const isSelected = ({ error }: Letter, { fromMs, toMs }: Selection): boolean => {
  const atMs = Date.parse(error.timestamp)
  return (fromMs === undefined || atMs >= fromMs) && (toMs === undefined || atMs <= toMs)
}
