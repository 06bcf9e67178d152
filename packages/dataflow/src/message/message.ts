// A message in the chain, and the records it becomes. The payload is parsed at most once, when needed; an unchanged message keeps its
// original bytes.
import { Buffer } from 'node:buffer'
import type { Json, Metadata } from '@brokkr/contract/dataflow/language/json.ts'
import { isTooDeep, parsePayload } from './json.ts'

export type Partition = string | number
export type Position = string | number | { readonly [key: string]: string | number }

/** bytes: not parsed yet · opaque: not JSON, or no payload · deep: nested too deep · parsed: `json` equals the bytes · changed: only
 *  `json` is valid. */
export type PayloadState = 'bytes' | 'opaque' | 'deep' | 'parsed' | 'changed'

export interface Message {
  /** As the source read them; kept for a dead letter. */
  readonly raw: Uint8Array | undefined
  json: Json | undefined
  state: PayloadState
  /** Whether a step may change this message and its payload. A message that is not owned is never changed: steps return a copy. */
  isOwned: boolean
  readonly key: Uint8Array | undefined
  /** Copied on write, so it may be shared. */
  metadata: Metadata
  /** The route that a router chose; undefined: main sink. */
  route: string | undefined
  readonly position: Position
  readonly partition: Partition
  readonly bytes: number
}

export interface NewMessage {
  readonly raw?: Uint8Array | undefined
  /** A payload that the source decoded itself. */
  readonly json?: Json | undefined
  readonly key?: Uint8Array | undefined
  readonly metadata: Metadata
  readonly position: Position
  readonly partition: Partition
  /** Size of a payload without bytes. */
  readonly bytes?: number | undefined
}

/** Creates a message of a source. No step owns it, so that it can run through the chain again. */
export function newMessage(from: NewMessage): Message {
  return {
    raw: from.raw,
    json: from.json,
    state: from.json === undefined ? 'bytes' : 'changed',
    isOwned: false,
    key: from.key,
    metadata: from.metadata,
    route: undefined,
    position: from.position,
    partition: from.partition,
    bytes: from.bytes ?? from.raw?.length ?? 0,
  }
}

/** The copy for one run of the chain. */
export const workingCopy = (source: Message): Message => copyWith(source, source.json, source.state, source.state === 'bytes')

/** The payload; undefined if it is not JSON. */
export function getPayload(message: Message): Json | undefined {
  return message.state === 'bytes' ? parse(message) : message.json
}

function parse(message: Message): Json | undefined {
  if (isEmpty(message)) {
    message.state = 'opaque'
    return undefined
  }
  message.json = parsePayload(message.raw!)
  message.state = message.json !== undefined ? 'parsed' : isTooDeep(message.raw!) ? 'deep' : 'opaque'
  return message.json
}

/** No value: a tombstone. */
export const isEmpty = (message: Message): boolean => message.json === undefined && (message.raw === undefined || message.raw.length === 0)

/** The message with another payload. `isOwned`: no other message shares a part of it. */
export function withPayload(message: Message, json: Json, isOwned: boolean): Message {
  if (!message.isOwned) return copyWith(message, json, 'changed', isOwned)
  message.json = json
  message.state = 'changed'
  message.isOwned = isOwned
  return message
}

export function withMetadata(message: Message, metadata: Metadata): Message {
  const target = message.isOwned ? message : copyWith(message, message.json, message.state, false)
  target.metadata = metadata
  return target
}

export function withRoute(message: Message, metadata: Metadata, route: string | undefined): Message {
  const target = withMetadata(message, metadata)
  target.route = route
  return target
}

/** Another record of the same message. */
export const derive = (message: Message, json: Json, isOwned: boolean): Message => copyWith(message, json, 'changed', isOwned)

/** Sets every field, so that all messages have one hidden class. */
function copyWith(message: Message, json: Json | undefined, state: PayloadState, isOwned: boolean, raw = message.raw): Message {
  return {
    raw,
    json,
    state,
    isOwned,
    key: message.key,
    metadata: message.metadata,
    route: message.route,
    position: message.position,
    partition: message.partition,
    bytes: message.bytes,
  }
}

/** The record as the bytes that a sink will write: a queued record then needs only these bytes, not its values. */
export function asBytes(message: Message): Message {
  if (message.state !== 'changed') return withoutValues(message)
  return copyWith(message, undefined, 'bytes', false, Buffer.from(JSON.stringify(message.json)))
}

/** Releases values that the bytes contain. */
export function withoutValues(message: Message): Message {
  if (message.state === 'parsed') {
    message.json = undefined
    message.state = 'bytes'
  }
  return message
}

/** Text for a sink; null for a tombstone. Invalid UTF-8 has no text: use bytes. */
export function payloadText(message: Message): string | null {
  if (message.state === 'changed') return JSON.stringify(message.json)
  return message.raw === undefined ? null : Buffer.from(message.raw.buffer, message.raw.byteOffset, message.raw.byteLength).toString()
}

/** Bytes for a sink: null for a tombstone, the original bytes of an unchanged message. */
export function payloadBytes(message: Message): Uint8Array | null {
  if (message.state === 'changed') return Buffer.from(JSON.stringify(message.json))
  return message.raw ?? null
}
