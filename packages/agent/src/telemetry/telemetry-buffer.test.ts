import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { expect, test } from 'vitest'
import { agentMetrics } from '../metrics.ts'
import { TokenBucket } from './rate-limit.ts'
import { TelemetryBuffer, type TelemetryItem, toStorableText } from './telemetry-buffer.ts'

const line = (n: number): TelemetryItem => ({ is: 'pod_log_line', stackId: 's', body: { n } })
const ring = (limits = { count: 3, bytes: 1_000 }) => new TelemetryBuffer({ metrics: agentMetrics(createMetrics()), now: () => 0 }, limits)
const all = { count: 100, bytes: 10_000 }
const numbers = (items: readonly TelemetryItem[]) => items.map(({ body }) => body['n'])

test('a full buffer drops the oldest entries and counts them in one gap', () => {
  const made = ring()
  for (let n = 0; n < 5; n++) made.add(line(n))
  const { items, gaps } = made.take(all)
  expect(numbers(items)).toEqual([2, 3, 4])
  expect(gaps).toEqual([{ stack_id: 's', since_ts: '1970-01-01T00:00:00.000Z', dropped_count: 2, reason: 'buffer_full' }])
  expect(made.isEmpty).toBe(true)
})

test('onFirst is called once until the buffer is taken', () => {
  const made = ring()
  let heard = 0
  made.onFirst(() => (heard += 1))
  made.add(line(0))
  made.add(line(1))
  expect(heard).toBe(1)
  made.take(all)
  made.drop('s', 'rate_limit')
  made.drop('s', 'rate_limit')
  expect(heard).toBe(2)
})

test('putBack restores order and gap counts', () => {
  const made = ring({ count: 10, bytes: 1_000 })
  for (let n = 0; n < 4; n++) made.add(line(n))
  made.drop('s', 'rate_limit', 7)
  const taken = made.take({ count: 2, bytes: 1_000 })
  made.drop('s', 'rate_limit')
  made.putBack(taken)
  const { items, gaps } = made.take(all)
  expect(numbers(items)).toEqual([0, 1, 2, 3])
  expect(gaps).toMatchObject([{ reason: 'rate_limit', dropped_count: 8 }])
})

test('the rate limit passes 100 lines per second', () => {
  let nowMs = 0
  const bucket = new TokenBucket(100, () => nowMs)
  const passed = () => Array.from({ length: 10_000 }, () => bucket.take()).filter(Boolean).length
  expect(passed()).toBe(100)
  nowMs += 1_000
  expect(passed()).toBe(100)
})

test.each([
  ['a text within the limit', 'abc', 5, 'abc'],
  ['a long text', 'abcdef', 3, 'abc'],
  ['a NUL', 'a\0b', 5, 'a\uFFFDb'],
  ['a cut surrogate pair', 'ab😀', 3, 'ab\uFFFD'],
])('%s is sent in a form that the broker stores', (_, text, charsMax, expected) => {
  expect(toStorableText(text, charsMax)).toBe(expected)
})
