// Converts fetched record batches to messages. Pure. Removes records of aborted transactions: the library's filter fails if a producer
// aborted twice within a fetch or the abort marker is in the next fetch.
import { isUtf8 } from 'node:buffer'
import type { MetadataValue } from '@brokkr/contract/dataflow/language/json.ts'
import { type Message, newMessage } from '../../message/message.ts'
import { type RawHeader, toHeaderMetadata } from './headers.ts'

export interface FetchedPartition {
  readonly partitionIndex: number
  readonly abortedTransactions?: readonly { readonly producerId: bigint; readonly firstOffset: bigint }[] | null
  readonly records?: readonly FetchedBatch[] | null
}
export interface FetchedBatch {
  readonly firstOffset: bigint
  readonly lastOffsetDelta: number
  readonly attributes: number
  readonly firstTimestamp: bigint
  readonly maxTimestamp: bigint
  readonly producerId: bigint
  readonly records: readonly FetchedRecord[]
}
export interface FetchedRecord {
  readonly offsetDelta: number
  readonly timestampDelta: bigint
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly RawHeader[]
}

export interface ReadRecords {
  readonly messages: Message[]
  /** Next offset of the partition. */
  readonly next: bigint
}

const logAppendTime = 0b1000
const transactional = 0b1_0000
const control = 0b10_0000

/** `from` is the requested offset: a batch may start before it. */
export function readRecords(topic: string, fetched: FetchedPartition, from: bigint, isCommittedOnly: boolean): ReadRecords {
  const messages: Message[] = []
  const aborted = isCommittedOnly ? abortedBatches(fetched) : new Set<FetchedBatch>()
  let next = from
  for (const batch of fetched.records ?? []) {
    const end = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n
    if (end > next) next = end
    if ((batch.attributes & control) !== 0 || aborted.has(batch)) continue
    // Offsets are far below 2^53, and adding numbers costs a tenth of adding bigints.
    const [base, firstOffset] = [Number(batch.firstOffset), Number(from)]
    for (const record of batch.records) {
      const offset = base + record.offsetDelta
      if (offset >= firstOffset) messages.push(toMessage(topic, fetched.partitionIndex, offset, toTimestampMs(batch, record), record))
    }
  }
  return { messages, next }
}

/** In offset order: a transaction spans from its first offset to its marker, which may come in a later fetch. */
function abortedBatches({ abortedTransactions, records }: FetchedPartition): ReadonlySet<FetchedBatch> {
  const pendingAborts = [...(abortedTransactions ?? [])].toSorted((a, b) => Number(a.firstOffset - b.firstOffset))
  const abortedProducers = new Set<bigint>()
  const abortedSet = new Set<FetchedBatch>()
  for (const batch of records ?? []) {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta)
    while (pendingAborts[0] !== undefined && pendingAborts[0].firstOffset <= last) abortedProducers.add(pendingAborts.shift()!.producerId)
    if ((batch.attributes & control) !== 0) {
      if (isAbortMarker(batch)) abortedProducers.delete(batch.producerId)
    } else if ((batch.attributes & transactional) !== 0 && abortedProducers.has(batch.producerId)) abortedSet.add(batch)
  }
  return abortedSet
}

/** Key of a control record: version, then type; 0 is abort. */
const isAbortMarker = (batch: FetchedBatch): boolean => batch.records[0]?.key?.readInt16BE(2) === 0

const toTimestampMs = (batch: FetchedBatch, record: FetchedRecord): number =>
  (batch.attributes & logAppendTime) !== 0 ? Number(batch.maxTimestamp) : Number(batch.firstTimestamp) + Number(record.timestampDelta)

function toMessage(topic: string, partition: number, offset: number, timeMs: number, record: FetchedRecord): Message {
  const { key, value, headers } = record
  const metadata: { [key: string]: MetadataValue } = { topic, partition, offset }
  if (key !== null && isUtf8(key)) metadata['key'] = key.toString()
  if (timeMs >= 0) metadata['timestamp'] = new Date(timeMs)
  if (headers.length > 0) Object.assign(metadata, toHeaderMetadata(headers))
  return newMessage({ raw: value ?? undefined, key: key ?? undefined, metadata, position: offset, partition })
}
