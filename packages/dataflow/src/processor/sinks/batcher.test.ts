import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { InFlightMessage, QueueEntry } from '../pipeline/in-flight-message.ts'
import { createInFlightMessage } from '../pipeline/in-flight-message.ts'
import { PartitionTracker } from '../pipeline/partition-tracker.ts'
import { jsonMessage } from '../test-parts/scripted.ts'
import { Batcher, type BatchLimits } from './batcher.ts'

const bounds: BatchLimits = { records: 3, bytes: 100, intervalMs: 1000, isEager: false, keepsMessagesWhole: false }
const tracker = new PartitionTracker(0)
const message = (at: number): InFlightMessage =>
  createInFlightMessage(jsonMessage({}, at), tracker, { readAtMs: 0, bytes: 0, fault: undefined })
const entry = (from: InFlightMessage, bytes = 1, index = 0): QueueEntry => ({ record: from.message!, from, index, bytes, isLast: true })

function batcherWith(changes: Partial<BatchLimits>, count: number, bytes = 1): Batcher {
  const batcher = new Batcher({ ...bounds, ...changes })
  for (let at = 0; at < count; at += 1) batcher.push(entry(message(at), bytes), 50)
  return batcher
}

test.each([
  ['nothing waits', {}, 0, 1, 60, false, Number.POSITIVE_INFINITY],
  ['fewer than a batch wait for the timer', {}, 2, 1, 60, false, 990],
  ['the timer is over', {}, 2, 1, 1100, false, 0],
  ['enough records', {}, 3, 1, 50, false, 0],
  ['enough bytes', {}, 2, 50, 50, false, 0],
  ['no timer', { intervalMs: 0 }, 2, 1, 99_999, false, Number.POSITIVE_INFINITY],
  ['eager', { isEager: true }, 1, 1, 50, false, 0],
  ['draining', {}, 1, 1, 50, true, 0],
  ['no number of records: bytes and timer alone', { records: 0 }, 500, 0.1, 50, false, 1000],
  ['never above ten thousand', { records: 0, bytes: 1e9 }, 10_000, 0.1, 50, false, 0],
] as const)('%s', (_case, changes, count, bytes, nowMs, isDraining, due) => {
  expect(batcherWith(changes, count, bytes).getDelayMs(nowMs, isDraining)).toBe(due)
})

test('a batch ends before a record over its bytes; a larger record is alone', () => {
  const batcher = new Batcher({ ...bounds, records: 100 })
  for (const [at, bytes] of [60, 50, 300, 10].entries()) batcher.push(entry(message(at), bytes), 0)
  expect(batcher.takeBatch(0).map(({ bytes }) => bytes)).toEqual([60])
  expect(batcher.takeBatch(0).map(({ bytes }) => bytes)).toEqual([50])
  expect(batcher.takeBatch(0).map(({ bytes }) => bytes)).toEqual([300])
  expect(batcher.takeBatch(0).map(({ bytes }) => bytes)).toEqual([10])
  expect(batcher).toMatchObject({ size: 0, bytes: 0 })
})

test('batches contain every record once, in order and within limits', () => {
  const sizes = fc.array(fc.record({ records: fc.integer({ min: 1, max: 5 }), bytes: fc.integer({ min: 1, max: 60 }) }), { maxLength: 40 })
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 6 }), fc.boolean(), (messages, records, keepsMessagesWhole) => {
      const batcher = new Batcher({ ...bounds, records, keepsMessagesWhole })
      const all: QueueEntry[] = []
      for (const [at, size] of messages.entries()) {
        const from = message(at)
        for (let index = 0; index < size.records; index += 1) all.push(entry(from, size.bytes, index))
      }
      for (const one of all) batcher.push(one, 0)
      const cut: QueueEntry[][] = []
      while (batcher.size > 0) cut.push(batcher.takeBatch(0))
      expect(cut.flat()).toEqual(all)
      for (const batch of cut) {
        const isOneMessage = new Set(batch.map(({ from }) => from)).size === 1
        const bytes = batch.reduce((sum, one) => sum + one.bytes, 0)
        if (keepsMessagesWhole) expect(batch.length <= records || isOneMessage).toBe(true)
        else expect(batch.length).toBeLessThanOrEqual(records)
        expect(bytes <= 100 || batch.length === 1 || (keepsMessagesWhole && isOneMessage)).toBe(true)
      }
      if (keepsMessagesWhole) for (const [at, batch] of cut.entries()) expect(cut[at + 1]?.[0]?.from === batch.at(-1)?.from).toBe(false)
    }),
  )
})
