import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { clientOf, RateLimit } from './rate-limit.ts'

test('[P79] the fourth of three calls is refused until its window ends; other clients pass', async () => {
  const clock = manualClock()
  const limit = new RateLimit(clock, { calls: 3, windowMs: 500 })
  const client = (remote: string, forwarded?: string) =>
    clientOf(remote, forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }, ['10.0.0.0/8'])
  expect([1, 2, 3].map(() => limit.count(client('2001:db8::1')))).toEqual([null, null, null])
  await clock.advance(100)
  expect(limit.count(client('2001:db8::1'))).toBe(400)
  expect(limit.count(client('192.0.2.7'))).toBeNull()
  expect(limit.count(client('2001:db8::2'))).toBeNull()
  expect(limit.count(client('2001:db8::1', '198.51.100.1'))).toBe(400)
  await clock.advance(900)
  expect(limit.count(client('2001:db8::1'))).toBeNull()
})

test('refused calls do not extend the window, and the number of windows is bounded', async () => {
  const clock = manualClock()
  const limit = new RateLimit(clock, { calls: 1, windowMs: 500 })
  limit.count('first')
  await clock.advance(400)
  expect(limit.count('first')).toBe(100)
  await clock.advance(100)
  expect(limit.count('first')).toBeNull()
  for (let client = 0; client < 10_000; client++) limit.count(`other ${client}`)
  expect(limit.count('first')).toBeNull()
})

test.each([
  ['no proxy', '192.0.2.1', '198.51.100.1', '192.0.2.1'],
  ['a trusted proxy', '10.0.0.1', '198.51.100.1', '198.51.100.1'],
  ['a mapped address of a trusted proxy', '::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1'],
  ['an entry that the client added', '10.0.0.1', '1.1.1.1, 198.51.100.1, 10.0.0.2', '198.51.100.1'],
  ['a trusted proxy without a header', '10.0.0.1', '', '10.0.0.1'],
])('the client behind %s is found', (_what, remote, forwarded, client) => {
  expect(clientOf(remote, { 'x-forwarded-for': forwarded }, ['10.0.0.0/8'])).toBe(client)
  expect(clientOf('10.0.0.1', { 'x-real-ip': '203.0.113.9' }, ['10.0.0.1'])).toBe('203.0.113.9')
})
