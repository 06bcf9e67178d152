import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type BatchBounds, Batcher } from './batcher.ts'
import type { Item, OpenMessage } from './open-message.ts'
import { openMessage } from './open-message.ts'
import { jsonMessage } from './test-parts/scripted.ts'
import { PartitionTracker } from './tracker.ts'

const bounds: BatchBounds = { records: 3, bytes: 100, intervalMs: 1000, isEager: false, keepsMessages: false }
const tracker = new PartitionTracker(0)
const message = (at: number): OpenMessage => openMessage(jsonMessage({}, at), tracker, { readAtMs: 0, bytes: 0, fault: undefined })
const item = (from: OpenMessage, bytes = 1, index = 0): Item => ({ record: from.message!, from, index, bytes, isLast: true })

function batcherWith(changes: Partial<BatchBounds>, count: number, bytes = 1): Batcher {
  const batcher = new Batcher({ ...bounds, ...changes })
  for (let at = 0; at < count; at += 1) batcher.push(item(message(at), bytes), 50)
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
  expect(batcherWith(changes, count, bytes).dueInMs(nowMs, isDraining)).toBe(due)
})

test('a batch ends before the record that would pass its bytes, and a larger one goes alone', () => {
  const batcher = new Batcher({ ...bounds, records: 100 })
  for (const [at, bytes] of [60, 50, 300, 10].entries()) batcher.push(item(message(at), bytes), 0)
  expect(batcher.cut(0).map(({ bytes }) => bytes)).toEqual([60])
  expect(batcher.cut(0).map(({ bytes }) => bytes)).toEqual([50])
  expect(batcher.cut(0).map(({ bytes }) => bytes)).toEqual([300])
  expect(batcher.cut(0).map(({ bytes }) => bytes)).toEqual([10])
  expect(batcher).toMatchObject({ size: 0, bytes: 0 })
})

test('batches hold every record once, in order, within bounds, and messages whole where that is asked', () => {
  const sizes = fc.array(fc.record({ records: fc.integer({ min: 1, max: 5 }), bytes: fc.integer({ min: 1, max: 60 }) }), { maxLength: 40 })
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 6 }), fc.boolean(), (messages, records, keepsMessages) => {
      const batcher = new Batcher({ ...bounds, records, keepsMessages })
      const all: Item[] = []
      for (const [at, size] of messages.entries()) {
        const from = message(at)
        for (let index = 0; index < size.records; index += 1) all.push(item(from, size.bytes, index))
      }
      for (const one of all) batcher.push(one, 0)
      const cut: Item[][] = []
      while (batcher.size > 0) cut.push(batcher.cut(0))
      expect(cut.flat()).toEqual(all)
      for (const batch of cut) {
        const isOneMessage = new Set(batch.map(({ from }) => from)).size === 1
        const bytes = batch.reduce((sum, one) => sum + one.bytes, 0)
        if (keepsMessages) expect(batch.length <= records || isOneMessage).toBe(true)
        else expect(batch.length).toBeLessThanOrEqual(records)
        expect(bytes <= 100 || batch.length === 1 || (keepsMessages && isOneMessage)).toBe(true)
      }
      if (keepsMessages) for (const [at, batch] of cut.entries()) expect(cut[at + 1]?.[0]?.from === batch.at(-1)?.from).toBe(false)
    }),
  )
})
