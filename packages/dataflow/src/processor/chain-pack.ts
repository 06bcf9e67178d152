// How messages travel to a worker thread and back: payloads in one buffer, the rest as plain values. Numbers whose digits only
// `JSON.rawJSON` keeps are packed by hand, because a copy between threads would lose them.
import { Buffer } from 'node:buffer'
import { isRawNumber, type Metadata, rawNumber } from '@brokkr/contract/dataflow/json.ts'
import type { Transformation } from '@brokkr/contract/dataflow/types.ts'
import type { Outcome, StepCounts } from './chain.ts'
import { type Message, newMessage, payloadBytes } from './message.ts'
import { TransformError } from './transform.ts'

export interface ChainJob {
  readonly transformations: readonly Transformation[]
  readonly nowMs: number
  readonly payloads: PackedBytes
  readonly keys: PackedBytes
  readonly metadata: readonly unknown[]
}
export interface PackedBytes {
  readonly bytes: Uint8Array
  /** -1: none. */
  readonly lengths: Int32Array
}
type PackedRecord = { readonly isChanged: boolean; readonly metadata: unknown; readonly route: string | undefined }
type PackedOutcome =
  | { readonly do: 'write'; readonly records: readonly PackedRecord[] }
  | Extract<Outcome, { do: 'drop' }>
  | { readonly do: 'fail'; readonly message: string; readonly code: TransformError['code']; readonly step: { index: number; type: string } }
export interface ChainAnswer {
  readonly outcomes: readonly PackedOutcome[]
  /** Of changed records, in order. */
  readonly payloads: PackedBytes
  readonly counts: readonly StepCounts[]
}

export const packMessages = (messages: readonly Message[]): Pick<ChainJob, 'payloads' | 'keys' | 'metadata'> => ({
  payloads: packBytes(messages.map(payloadBytes)),
  keys: packBytes(messages.map(({ key }) => key)),
  metadata: messages.map(({ metadata }) => packMetadata(metadata)),
})

export function unpackMessages(job: ChainJob): Message[] {
  const payloads = unpackBytes(job.payloads)
  const keys = unpackBytes(job.keys)
  return job.metadata.map((metadata, at) =>
    newMessage({ raw: payloads[at], key: keys[at], metadata: unpackMetadata(metadata) as Metadata, position: at, partition: 0 }),
  )
}

export function packOutcomes(messages: readonly Message[], outcomes: readonly Outcome[], counts: readonly StepCounts[]): ChainAnswer {
  const changed: (Uint8Array | null)[] = []
  const packed = outcomes.map((outcome, at): PackedOutcome => {
    if (outcome.do === 'drop') return outcome
    if (outcome.do === 'fail') return { do: 'fail', message: outcome.error.message, code: outcome.error.code, step: { ...outcome.step } }
    const records = outcome.records.map((record) => {
      const isChanged = record.state === 'changed'
      if (isChanged) changed.push(payloadBytes(record))
      const hasMetadata = record.metadata !== messages[at]!.metadata
      return { isChanged, metadata: hasMetadata ? packMetadata(record.metadata) : undefined, route: record.route }
    })
    return { do: 'write', records }
  })
  return { outcomes: packed, payloads: packBytes(changed), counts }
}

export function unpackOutcomes(messages: readonly Message[], answer: ChainAnswer): Outcome[] {
  const payloads = unpackBytes(answer.payloads)
  let next = 0
  return answer.outcomes.map((outcome, at): Outcome => {
    if (outcome.do === 'drop') return outcome
    if (outcome.do === 'fail') return failOf(outcome)
    const message = messages[at]!
    const records = outcome.records.map((record) => {
      const raw = record.isChanged ? payloads[next++] : undefined
      const metadata =
        record.metadata === undefined ? message.metadata : withSymbols(unpackMetadata(record.metadata) as Metadata, message.metadata)
      return recordOf(message, raw, metadata, record.route)
    })
    return { do: 'write', records }
  })
}

/** Entries under symbols do not travel between threads; no step touches them. */
function withSymbols(metadata: Metadata, original: Metadata): Metadata {
  const symbols = Object.getOwnPropertySymbols(original)
  if (symbols.length === 0) return metadata
  const kept = original as unknown as Record<symbol, unknown>
  return Object.assign({ ...metadata }, ...symbols.map((symbol) => ({ [symbol]: kept[symbol] }))) as Metadata
}

function recordOf(message: Message, raw: Uint8Array | undefined, metadata: Metadata, route: string | undefined): Message {
  const { key, position, partition } = message
  const record = raw === undefined ? { ...message, metadata } : newMessage({ raw, key, metadata, position, partition })
  record.route = route
  return record
}

function failOf(outcome: PackedOutcome & { do: 'fail' }): Outcome {
  const error = Object.assign(new TransformError('', '', '', outcome.code), { message: outcome.message })
  return { do: 'fail', error, step: outcome.step as (Outcome & { do: 'fail' })['step'] }
}

/** One buffer of its own: a view into a shared pool would take the whole pool along. */
export function packBytes(parts: readonly (Uint8Array | null | undefined)[]): PackedBytes {
  const lengths = Int32Array.from(parts, (part) => part?.length ?? -1)
  const bytes = new Uint8Array(lengths.reduce((sum, length) => sum + Math.max(0, length), 0))
  let at = 0
  for (const part of parts) {
    if (part === null || part === undefined) continue
    bytes.set(part, at)
    at += part.length
  }
  return { bytes, lengths }
}

export function unpackBytes({ bytes, lengths }: PackedBytes): (Buffer | undefined)[] {
  let at = 0
  return Array.from(lengths, (length) => {
    if (length < 0) return undefined
    const part = Buffer.from(bytes.buffer, bytes.byteOffset + at, length)
    at += length
    return part
  })
}

const rawKey = '\u0000raw'

function packMetadata(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  if (isRawNumber(value)) return { [rawKey]: value.rawJSON }
  if (Array.isArray(value)) return value.map(packMetadata)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, packMetadata(inner)]))
}

function unpackMetadata(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  if (Array.isArray(value)) return value.map(unpackMetadata)
  const digits = (value as Record<string, unknown>)[rawKey]
  if (typeof digits === 'string') return rawNumber(digits)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unpackMetadata(inner)]))
}
