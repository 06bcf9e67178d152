// Makes a dead letter of what could not be written: the reason and where it happened beside the payload, masked where the flow masks.
// Pure. The letter's id depends on flow, place and stage alone, so that a repeat is known as one.
import { Buffer, isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { LetterError, LetterStage } from '@brokkr/contract/dataflow/envelope.ts'
import { isRecord, type Json, type JsonObject, type Metadata } from '@brokkr/contract/dataflow/json.ts'
import { metadataJson } from '@brokkr/contract/dataflow/string-form.ts'
import type { Transformation } from '@brokkr/contract/dataflow/types.ts'
import { type Message, newMessage, payloadOf, workingCopy } from './message.ts'
import { compileMask } from './transforms/mask.ts'

export interface Failure {
  readonly stage: LetterStage
  readonly type: string
  /** Paths and types, never values. */
  readonly message: string
  readonly step?: { readonly index: number; readonly type: string }
  readonly firstFailedAtMs: number
  readonly attempts: number
}

export interface LetterPlace {
  readonly positionText: string
  readonly recordIndex: number
  /** Type of the sink and name of the route it was meant for. */
  readonly sink: string
  readonly route: string
}

export interface LetterMaker {
  make(payload: Message, failure: Failure, place: LetterPlace, nowMs: number): Message
}

export interface LetterOptions {
  /** `namespace/name`. */
  readonly flow: string
  readonly specHash: string
  readonly payload: 'full' | 'masked'
  readonly transformations: readonly Transformation[]
  /** Takes secrets out of a text. */
  readonly redact: (text: string) => string
}

export function createLetterMaker(options: LetterOptions): LetterMaker {
  const masks = options.transformations.flatMap((step) => (step.type === 'mask' ? [compileMask(step.config)] : []))
  const shown = (payload: Message): Json => {
    if (options.payload === 'full') return wrapped(payload)
    const json = payloadOf(workingCopy(payload))
    if (json === undefined) return { ...omitted }
    const masked = masks.reduce((value, apply) => apply(value, { isOwned: false, hits: 0 }), json)
    return isRecord(masked) ? masked : { original_data: JSON.stringify(masked) }
  }
  return {
    make(payload, failure, place, nowMs) {
      const id = letterId(options.flow, payload, place.recordIndex, failure.stage)
      const error: LetterError = {
        id,
        message: options.redact(failure.message).slice(0, messageCharsMax),
        type: failure.type,
        stage: failure.stage,
        ...(failure.step === undefined ? {} : { step: failure.step }),
        timestamp: new Date(nowMs).toISOString(),
        first_failed_at: new Date(failure.firstFailedAtMs).toISOString(),
        attempts: failure.attempts,
        original_sink: place.sink,
        route: place.route,
        flow: options.flow,
        position: options.redact(place.positionText),
        spec_hash: options.specHash,
        metadata: plainMetadata(payload.metadata),
      }
      return letterMessage(payload, error, failure.type === 'too_large' ? { ...omitted } : shown(payload))
    },
  }
}

const messageCharsMax = 4096
const omitted = { omitted: true }

/** The letter without the payload, for an errors sink that finds it too large. */
export function withoutPayload(letter: Message): Message {
  const { error } = letter.json as { error: JsonObject }
  return newMessage({ ...letter, raw: undefined, json: { error, original_message: { ...omitted } }, bytes: 0 })
}

function letterMessage(payload: Message, error: LetterError, original: Json): Message {
  return newMessage({
    json: { error: error as unknown as JsonObject, original_message: original },
    key: Buffer.from(error.id),
    metadata: {
      ...payload.metadata,
      error: error.message,
      error_timestamp: error.timestamp,
      original_sink: error.original_sink,
      is_error_message: true,
    },
    position: payload.position,
    partition: payload.partition,
    bytes: payload.bytes,
  })
}

/** Equal for the same trouble with the same record, however often it is met. */
export function letterId(flow: string, at: Pick<Message, 'partition' | 'position'>, recordIndex: number, stage: LetterStage): string {
  const text = JSON.stringify([flow, at.partition, at.position, recordIndex, stage])
  return createHash('sha256').update(text).digest('hex').slice(0, 40)
}

function wrapped(payload: Message): Json {
  const json = payloadOf(workingCopy(payload))
  if (isRecord(json)) return json
  if (payload.state === 'changed' && json !== undefined) return { original_data: JSON.stringify(json) }
  const raw = payload.raw ?? new Uint8Array()
  const bytes = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength)
  return isUtf8(raw) ? { original_data: bytes.toString() } : { original_data_base64: bytes.toString('base64') }
}

/** Times as texts; the rest as the source gave it. */
function plainMetadata(metadata: Metadata): Record<string, unknown> {
  return Object.fromEntries(Object.entries(metadata).map(([key, value]) => [key, metadataJson(value)]))
}
