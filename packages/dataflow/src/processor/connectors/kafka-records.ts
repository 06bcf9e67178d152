// Fetched record batches to messages. Pure. Records of aborted transactions are left out here: the library's own filter lets them
// through when a producer aborted twice within a fetch or the marker of an abort lies in the next one.
import { isUtf8 } from 'node:buffer'
import type { MetadataValue } from '@brokkr/contract/dataflow/json.ts'
import { type Message, newMessage } from '../message.ts'
import { headerMetadata, type RawHeader } from './kafka-headers.ts'

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
  /** Where the next fetch of the partition begins. */
  readonly next: bigint
}

const logAppendTime = 0b1000
const transactional = 0b1_0000
const control = 0b10_0000

/** `from` is the offset that was asked for: a batch may begin before it. */
export function readRecords(topic: string, fetched: FetchedPartition, from: bigint, isCommittedOnly: boolean): ReadRecords {
  const messages: Message[] = []
  const aborted = isCommittedOnly ? abortedBatches(fetched) : new Set<FetchedBatch>()
  let next = from
  for (const batch of fetched.records ?? []) {
    const end = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n
    if (end > next) next = end
    if ((batch.attributes & control) !== 0 || aborted.has(batch)) continue
    // Offsets are far below 2^53, and adding numbers costs a tenth of adding bigints.
    const [base, wanted] = [Number(batch.firstOffset), Number(from)]
    for (const record of batch.records) {
      const offset = base + record.offsetDelta
      if (offset >= wanted) messages.push(toMessage(topic, fetched.partitionIndex, offset, timeOf(batch, record), record))
    }
  }
  return { messages, next }
}

/** In offset order: a transaction is open from its first offset to its marker, and the marker may come in a later fetch. */
function abortedBatches({ abortedTransactions, records }: FetchedPartition): ReadonlySet<FetchedBatch> {
  const waiting = [...(abortedTransactions ?? [])].toSorted((a, b) => Number(a.firstOffset - b.firstOffset))
  const open = new Set<bigint>()
  const skipped = new Set<FetchedBatch>()
  for (const batch of records ?? []) {
    const last = batch.firstOffset + BigInt(batch.lastOffsetDelta)
    while (waiting[0] !== undefined && waiting[0].firstOffset <= last) open.add(waiting.shift()!.producerId)
    if ((batch.attributes & control) !== 0) {
      if (isAbortMarker(batch)) open.delete(batch.producerId)
    } else if ((batch.attributes & transactional) !== 0 && open.has(batch.producerId)) skipped.add(batch)
  }
  return skipped
}

/** The key of a control record: version, then type; 0 is abort. */
const isAbortMarker = (batch: FetchedBatch): boolean => batch.records[0]?.key?.readInt16BE(2) === 0

const timeOf = (batch: FetchedBatch, record: FetchedRecord): number =>
  (batch.attributes & logAppendTime) !== 0 ? Number(batch.maxTimestamp) : Number(batch.firstTimestamp) + Number(record.timestampDelta)

function toMessage(topic: string, partition: number, offset: number, timeMs: number, record: FetchedRecord): Message {
  const { key, value, headers } = record
  const metadata: { [key: string]: MetadataValue } = { topic, partition, offset }
  if (key !== null && isUtf8(key)) metadata['key'] = key.toString()
  if (timeMs >= 0) metadata['timestamp'] = new Date(timeMs)
  if (headers.length > 0) Object.assign(metadata, headerMetadata(headers))
  return newMessage({ raw: value ?? undefined, key: key ?? undefined, metadata, position: offset, partition })
}
