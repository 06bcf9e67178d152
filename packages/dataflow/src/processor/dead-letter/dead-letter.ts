// Builds a dead letter: the error and its origin beside the payload, which is masked if the flow masks. Pure. The id depends on flow,
// position and stage only, so a repeated dead letter has the same id.
import { Buffer, isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { LetterError, LetterStage } from '@brokkr/contract/dataflow/dead-letter.ts'
import { isRecord, type Json, type JsonObject, type Metadata } from '@brokkr/contract/dataflow/language/json.ts'
import { metadataJson } from '@brokkr/contract/dataflow/language/string-form.ts'
import type { Transformation } from '@brokkr/contract/dataflow/spec/types.ts'
import { getPayload, type Message, newMessage, workingCopy } from '../../message/message.ts'
import { compileMask } from '../../transforms/mask.ts'

export interface Failure {
  readonly stage: LetterStage
  readonly type: string
  /** Paths and types, never values. */
  readonly message: string
  readonly step?: { readonly index: number; readonly type: string }
  readonly firstFailedAtMs: number
  readonly attempts: number
}

export interface DeadLetterOrigin {
  readonly positionText: string
  readonly recordIndex: number
  /** Type of the sink and name of the route. */
  readonly sink: string
  readonly route: string
}

export interface DeadLetterBuilder {
  build(payload: Message, failure: Failure, place: DeadLetterOrigin, nowMs: number): Message
}

export interface DeadLetterOptions {
  /** `namespace/name`. */
  readonly flow: string
  readonly specHash: string
  readonly payload: 'full' | 'masked'
  readonly transformations: readonly Transformation[]
  /** Removes secrets from a text. */
  readonly redact: (text: string) => string
}

export function createDeadLetterBuilder(options: DeadLetterOptions): DeadLetterBuilder {
  const masks = options.transformations.flatMap((step) => (step.type === 'mask' ? [compileMask(step.config)] : []))
  const toShownPayload = (payload: Message): Json => {
    if (options.payload === 'full') return wrapPayload(payload)
    const json = getPayload(workingCopy(payload))
    if (json === undefined) return { ...omittedPayload }
    const masked = masks.reduce((value, apply) => apply(value, { isOwned: false, hits: 0 }), json)
    return isRecord(masked) ? masked : { original_data: JSON.stringify(masked) }
  }
  return {
    build(payload, failure, place, nowMs) {
      const id = toDeadLetterId(options.flow, payload, place.recordIndex, failure.stage)
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
        metadata: toPlainMetadata(payload.metadata),
      }
      return toDeadLetterMessage(payload, error, failure.type === 'too_large' ? { ...omittedPayload } : toShownPayload(payload))
    },
  }
}

const messageCharsMax = 4096
const omittedPayload = { omitted: true }

/** The dead letter without its payload, for an errors sink that rejects it. */
export function withoutPayload(letter: Message): Message {
  const { error } = letter.json as { error: JsonObject }
  return newMessage({ ...letter, raw: undefined, json: { error, original_message: { ...omittedPayload } }, bytes: 0 })
}

function toDeadLetterMessage(payload: Message, error: LetterError, original: Json): Message {
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

/** Equal for every failure of the same record in the same stage. */
export function toDeadLetterId(flow: string, at: Pick<Message, 'partition' | 'position'>, recordIndex: number, stage: LetterStage): string {
  const text = JSON.stringify([flow, at.partition, at.position, recordIndex, stage])
  return createHash('sha256').update(text).digest('hex').slice(0, 40)
}

function wrapPayload(payload: Message): Json {
  const json = getPayload(workingCopy(payload))
  if (isRecord(json)) return json
  if (payload.state === 'changed' && json !== undefined) return { original_data: JSON.stringify(json) }
  const raw = payload.raw ?? new Uint8Array()
  const bytes = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength)
  return isUtf8(raw) ? { original_data: bytes.toString() } : { original_data_base64: bytes.toString('base64') }
}

/** Times become text; other values stay. */
function toPlainMetadata(metadata: Metadata): Record<string, unknown> {
  return Object.fromEntries(Object.entries(metadata).map(([key, value]) => [key, metadataJson(value)]))
}
