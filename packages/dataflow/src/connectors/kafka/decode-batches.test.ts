import { expect, test } from 'vitest'
import { type FetchedBatch, readRecords } from './decode-batches.ts'
import { toHeaderMetadata, toKafkaHeaders } from './headers.ts'

const transactional = 0b1_0000
const control = 0b11_0000
const marker = (isCommit: boolean) => Buffer.from([0, 0, 0, isCommit ? 1 : 0])

function batch(firstOffset: number, count: number, part: { producer?: number; attributes?: number; marker?: boolean } = {}): FetchedBatch {
  const records = Array.from({ length: count }, (_, index) => ({
    offsetDelta: index,
    timestampDelta: BigInt(index),
    key: part.marker === undefined ? null : marker(part.marker),
    value: Buffer.from(String(firstOffset + index)),
    headers: [],
  }))
  const attributes = part.marker === undefined ? (part.attributes ?? 0) : control
  return {
    firstOffset: BigInt(firstOffset),
    lastOffsetDelta: count - 1,
    attributes,
    firstTimestamp: 1000n,
    maxTimestamp: 5000n,
    producerId: BigInt(part.producer ?? -1),
    records,
  }
}
const read = (records: FetchedBatch[], aborted: [number, number][] = [], from = 0, isCommittedOnly = true) =>
  readRecords(
    't',
    {
      partitionIndex: 1,
      records,
      abortedTransactions: aborted.map(([producer, first]) => ({ producerId: BigInt(producer), firstOffset: BigInt(first) })),
    },
    BigInt(from),
    isCommittedOnly,
  )
const offsets = ({ messages }: { messages: { position: unknown }[] }) => messages.map(({ position }) => position)

test('a batch that starts before the position yields only later records', () => {
  const found = read([batch(10, 5)], [], 12)
  expect(offsets(found)).toEqual([12, 13, 14])
  expect(found.next).toBe(15n)
})

test('transaction markers advance the position without a message', () => {
  const found = read([batch(0, 2, { producer: 7, attributes: transactional }), batch(2, 1, { producer: 7, marker: true })])
  expect(offsets(found)).toEqual([0, 1])
  expect(found.next).toBe(3n)
})

test('a producer that aborts twice leaves only its committed records', () => {
  const own = { producer: 7, attributes: transactional }
  const batches = [
    batch(0, 1, own),
    batch(1, 1, { producer: 7, marker: false }),
    batch(2, 1, own),
    batch(3, 1, { producer: 7, marker: true }),
    batch(4, 1, own),
    batch(5, 1, { producer: 7, marker: false }),
    batch(6, 1),
  ]
  expect(
    offsets(
      read(batches, [
        [7, 4],
        [7, 0],
      ]),
    ),
  ).toEqual([2, 6])
  expect(
    offsets(
      read(
        batches,
        [
          [7, 4],
          [7, 0],
        ],
        0,
        false,
      ),
    ),
  ).toEqual([0, 2, 4, 6])
})

test('an aborted transaction is hidden across two fetches', () => {
  const own = { producer: 7, attributes: transactional }
  expect(offsets(read([batch(0, 2, own), batch(2, 1, { producer: 8, attributes: transactional })], [[7, 0]]))).toEqual([2])
  expect(offsets(read([batch(3, 1, own), batch(4, 1, { producer: 7, marker: false }), batch(5, 1, own)], [[7, 0]], 3))).toEqual([5])
})

test('the timestamp is of the producer, or of the broker with LogAppendTime', () => {
  expect(read([batch(0, 2)]).messages.map(({ metadata }) => metadata['timestamp'])).toEqual([new Date(1000), new Date(1001)])
  expect(read([batch(0, 1, { attributes: 0b1000 })]).messages[0]?.metadata['timestamp']).toEqual(new Date(5000))
})

test.each([
  [[['a', 'b']], { headers: { a: 'b' } }],
  [[], {}],
  [[['a', null]], { headers: { a: null } }],
] as [[string, string | null][], object][])('headers %j', (entries, metadata) => {
  const raw = entries.map(([name, value]) => [Buffer.from(name), value === null ? null : Buffer.from(value)] as [Buffer, Buffer | null])
  expect(toHeaderMetadata(raw)).toEqual(metadata)
  const again = toKafkaHeaders(toHeaderMetadata(raw))
  expect([...(again ?? [])].map(([name, value]) => [String(name), value === null ? null : String(value)])).toEqual(entries)
})
