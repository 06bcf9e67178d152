// A message on its way through the chain, and the records it becomes. Parsed at most once, on first need; one that nothing changed
// leaves with its very bytes.
import { Buffer } from 'node:buffer'
import type { Json, Metadata } from '@brokkr/contract/dataflow/json.ts'
import { isTooDeep, parsePayload } from './json.ts'

export type Partition = string | number
export type Position = string | number | { readonly [key: string]: string | number }

/** bytes: not looked at yet · opaque: no JSON, or no payload at all · deep: nested beyond all bounds · parsed: `json` says what the
 *  bytes say · changed: `json` alone is the payload, the bytes are history. */
export type PayloadState = 'bytes' | 'opaque' | 'deep' | 'parsed' | 'changed'

export interface Message {
  /** As the source read them; kept for the letter, should there be one. */
  readonly raw: Uint8Array | undefined
  json: Json | undefined
  state: PayloadState
  /** Whether a step may write into this message and its payload. One that is not owned is never touched: steps answer with another. */
  isOwned: boolean
  readonly key: Uint8Array | undefined
  /** Copied on write, so it may be shared. */
  metadata: Metadata
  /** The route a router chose; none: the main sink. */
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
  /** Size of the payload where there are no bytes to count. */
  readonly bytes?: number | undefined
}

/** What a source hands out. It is not owned by any step, so that it can run through the chain again. */
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

/** The copy that a run of the chain works on. */
export const workingCopy = (source: Message): Message => copyWith(source, source.json, source.state, source.state === 'bytes')

/** The payload; undefined when it is no JSON. */
export function payloadOf(message: Message): Json | undefined {
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

/** No value at all: a tombstone. */
export const isEmpty = (message: Message): boolean => message.json === undefined && (message.raw === undefined || message.raw.length === 0)

/** The message with another payload. `isOwned`: whether nobody else holds a part of it. */
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

/** Every field by name: all messages have one hidden class. */
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

/** The record as the bytes that a sink will write: waiting for it then costs these alone, not the values they were made of. */
export function asBytes(message: Message): Message {
  if (message.state !== 'changed') return withoutValues(message)
  return copyWith(message, undefined, 'bytes', false, Buffer.from(JSON.stringify(message.json)))
}

/** Values that the bytes can tell again are given up. */
export function withoutValues(message: Message): Message {
  if (message.state === 'parsed') {
    message.json = undefined
    message.state = 'bytes'
  }
  return message
}

/** What a sink writes as text; null for a tombstone. Bytes that are no UTF-8 have no text: ask for bytes then. */
export function payloadText(message: Message): string | null {
  if (message.state === 'changed') return JSON.stringify(message.json)
  return message.raw === undefined ? null : Buffer.from(message.raw.buffer, message.raw.byteOffset, message.raw.byteLength).toString()
}

/** What a sink writes: null for a tombstone, the very bytes of an unchanged message. */
export function payloadBytes(message: Message): Uint8Array | null {
  if (message.state === 'changed') return Buffer.from(JSON.stringify(message.json))
  return message.raw ?? null
}
