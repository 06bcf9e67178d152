import { expect, test } from 'vitest'
import { rulesBroken, run, runText, step } from '../processor/test-parts/chains.ts'

test('[D12] timestamp sets the processing time and replaces an older value', () => {
  const before = Date.now()
  const around = { nowMs: before }
  const [added] = run(step('timestamp'), '{"id":1,"name":"x","data":{"v":42}}', around) as [Record<string, unknown>]
  expect(added).toEqual({
    id: 1,
    name: 'x',
    data: { v: 42 },
    created_at: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/) as string,
  })
  expect(Math.abs(Date.parse(added['created_at'] as string) - before)).toBeLessThanOrEqual(2000)
  expect(run(step('timestamp'), '{"created_at":"old"}')).toEqual([{ created_at: '2026-01-16T13:55:03Z' }])
  expect(run(step('timestamp', { fieldName: 'timestamp' }), '{"id":1}')).toEqual([{ id: 1, timestamp: '2026-01-16T13:55:03Z' }])
})

test('[D13] timestamp supports named formats and layouts', () => {
  const nowMs = Date.parse('2026-01-16T13:55:03Z') + 120.5
  const at = (format: string) => (run(step('timestamp', { format }), '{}', { nowMs }) as { created_at: unknown }[])[0]!.created_at
  expect(at('RFC3339Nano')).toBe('2026-01-16T13:55:03.1205Z')
  expect(at('rfc1123')).toBe('Fri, 16 Jan 2026 13:55:03 UTC')
  expect(Date.parse(at('rfc1123') as string)).toBe(Date.parse('2026-01-16T13:55:03Z'))
  expect(at('Unix')).toBe(1_768_571_703)
  expect(at('UnixMilli')).toBe(1_768_571_703_120)
  expect(at('02 Jan 2006 15:04')).toBe('16 Jan 2026 13:55')
  expect(rulesBroken(step('timestamp', { format: 'banana' }))).toEqual(['V17'])
})

test('timestamp writes numbers with all digits', () => {
  const nowMs = 1_768_571_703_120.5
  expect(runText(step('timestamp', { format: 'UnixMicro' }), '{}', { nowMs })).toBe('{"created_at":1768571703120500}')
  expect(runText(step('timestamp', { format: 'unixnano' }), '{}', { nowMs })).toBe('{"created_at":1768571703120500000}')
})

test('timestamp supports nested fields, zones and other payloads', () => {
  expect(run(step('timestamp', { fieldName: 'meta.at' }), '{"id":1}')).toEqual([{ id: 1, meta: { at: '2026-01-16T13:55:03Z' } }])
  expect(run(step('timestamp', { timezone: 'Europe/Moscow' }), '{}')).toEqual([{ created_at: '2026-01-16T16:55:03+03:00' }])
  expect(runText(step('timestamp'), '[1, 2]')).toBe('[1, 2]')
  expect(() => run(step('timestamp', { fieldName: 'a.b' }), '{"a":5}')).toThrow(
    'timestamp: a.b: a parent is neither an object nor an array',
  )
})

test('timestamp formats each second', () => {
  const seconds = [0, 999, 1000, 500, 61_000].map((ms) => run(step('timestamp'), '{}', { nowMs: ms }))
  expect(seconds.flat().map((record) => (record as { created_at: string }).created_at.slice(14))).toEqual([
    '00:00Z',
    '00:00Z',
    '00:01Z',
    '00:00Z',
    '01:01Z',
  ])
})
