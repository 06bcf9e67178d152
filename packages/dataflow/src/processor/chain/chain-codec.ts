// Encodes messages for a worker thread and decodes its result: payloads in one buffer, the rest as plain values. Raw numbers in metadata
// are encoded as digits, because structured clone would lose them.
import { Buffer } from 'node:buffer'
import { isRawNumber, type Metadata, rawNumber } from '@brokkr/contract/dataflow/language/json.ts'
import type { Transformation } from '@brokkr/contract/dataflow/spec/types.ts'
import { type Message, newMessage, payloadBytes } from '../../message/message.ts'
import { TransformError } from '../../transforms/transform.ts'
import type { ChainOutcome, StepCounts } from './chain.ts'

export interface ChainJob {
  readonly transformations: readonly Transformation[]
  readonly nowMs: number
  readonly payloads: PackedBytes
  readonly keys: PackedBytes
  readonly metadata: readonly unknown[]
}
export interface PackedBytes {
  readonly bytes: Uint8Array
  /** -1: no payload. */
  readonly lengths: Int32Array
}
type PackedRecord = { readonly isChanged: boolean; readonly metadata: unknown; readonly route: string | undefined }
type PackedOutcome =
  | { readonly do: 'write'; readonly records: readonly PackedRecord[] }
  | Extract<ChainOutcome, { do: 'drop' }>
  | { readonly do: 'fail'; readonly message: string; readonly code: TransformError['code']; readonly step: { index: number; type: string } }
export interface ChainJobResult {
  readonly outcomes: readonly PackedOutcome[]
  /** Payloads of changed records, in order. */
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

export function packOutcomes(
  messages: readonly Message[],
  outcomes: readonly ChainOutcome[],
  counts: readonly StepCounts[],
): ChainJobResult {
  const changedPayloads: (Uint8Array | null)[] = []
  const packed = outcomes.map((outcome, at): PackedOutcome => {
    if (outcome.do === 'drop') return outcome
    if (outcome.do === 'fail') return { do: 'fail', message: outcome.error.message, code: outcome.error.code, step: { ...outcome.step } }
    const records = outcome.records.map((record) => {
      const isChanged = record.state === 'changed'
      if (isChanged) changedPayloads.push(payloadBytes(record))
      const hasMetadata = record.metadata !== messages[at]!.metadata
      return { isChanged, metadata: hasMetadata ? packMetadata(record.metadata) : undefined, route: record.route }
    })
    return { do: 'write', records }
  })
  return { outcomes: packed, payloads: packBytes(changedPayloads), counts }
}

export function unpackOutcomes(messages: readonly Message[], answer: ChainJobResult): ChainOutcome[] {
  const payloads = unpackBytes(answer.payloads)
  let next = 0
  return answer.outcomes.map((outcome, at): ChainOutcome => {
    if (outcome.do === 'drop') return outcome
    if (outcome.do === 'fail') return unpackFailure(outcome)
    const message = messages[at]!
    const records = outcome.records.map((record) => {
      const raw = record.isChanged ? payloads[next++] : undefined
      const metadata =
        record.metadata === undefined ? message.metadata : withSymbols(unpackMetadata(record.metadata) as Metadata, message.metadata)
      return buildRecord(message, raw, metadata, record.route)
    })
    return { do: 'write', records }
  })
}

/** Entries under symbols are not cloned between threads; no step changes them. */
function withSymbols(metadata: Metadata, original: Metadata): Metadata {
  const symbols = Object.getOwnPropertySymbols(original)
  if (symbols.length === 0) return metadata
  const originalBySymbol = original as unknown as Record<symbol, unknown>
  return Object.assign({ ...metadata }, ...symbols.map((symbol) => ({ [symbol]: originalBySymbol[symbol] }))) as Metadata
}

function buildRecord(message: Message, raw: Uint8Array | undefined, metadata: Metadata, route: string | undefined): Message {
  const { key, position, partition } = message
  const record = raw === undefined ? { ...message, metadata } : newMessage({ raw, key, metadata, position, partition })
  record.route = route
  return record
}

function unpackFailure(outcome: PackedOutcome & { do: 'fail' }): ChainOutcome {
  const error = Object.assign(new TransformError('', '', '', outcome.code), { message: outcome.message })
  return { do: 'fail', error, step: outcome.step as (ChainOutcome & { do: 'fail' })['step'] }
}

/** Its own buffer: transferring a view into a shared pool would transfer the whole pool. */
function packBytes(parts: readonly (Uint8Array | null | undefined)[]): PackedBytes {
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

function unpackBytes({ bytes, lengths }: PackedBytes): (Buffer | undefined)[] {
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
