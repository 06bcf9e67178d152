// cast, timezone, insertField: those that make new values.
import { expect, test } from 'vitest'
import { chainOf, failure, recordsOf, rulesBroken, run, runChain, runText, step } from '../processor/test-parts/chains.ts'

const cast = (spec: Record<string, unknown>) => step('cast', { spec })

test('[D39] cast converts values to another type', () => {
  const payload = '{"id":"42","amount":"1.5","active":"true","row":{"id":"9"},"a":1,"b":0}'
  const spec = { id: 'int64', amount: 'float64', active: 'bool', '$.row.id': 'int64', a: 'bool', b: 'bool', nope: 'int64' }
  expect(run(cast(spec), payload)).toEqual([{ id: 42, amount: 1.5, active: true, row: { id: 9 }, a: true, b: false }])
  const metadata = { topic: 't' }
  expect(recordsOf(runChain(chainOf(cast(spec)), payload, { metadata }))[0]!.metadata).toBe(metadata)
})

test('a failed conversion is an error without the value', () => {
  expect(failure(cast({ o: 'string' }), '{"o":{"secret":1}}')).toBe('cast: o: object does not convert to string')
  expect(failure(cast({ a: 'bool' }), '{"a":"yes"}')).toBe('cast: a: string does not convert to bool')
  expect(failure(cast({ a: 'int64' }), '{"a":null}')).toBe('cast: a: null does not convert to int64')
  expect(failure(cast({ a: 'int64' }), '{"a":"9223372036854775808"}')).toBe('cast: a: string does not convert to int64')
})

test.each<[string, string, string]>([
  ['"9223372036854775807"', 'int64', '9223372036854775807'],
  ['-9223372036854775808', 'int64', '-9223372036854775808'],
  ['5.0', 'int64', '5'],
  ['1e3', 'int64', '1000'],
  ['"+7"', 'int64', '7'],
  ['9007199254740993', 'string', '"9007199254740993"'],
  ['1.50', 'string', '"1.5"'],
  ['true', 'string', '"true"'],
  ['"x"', 'string', '"x"'],
  ['"1e3"', 'float64', '1000'],
  ['0.12345678901234567890', 'float64', '0.12345678901234567890'],
  ['"t"', 'bool', 'true'],
  ['"0"', 'bool', 'false'],
  ['false', 'bool', 'false'],
  ['{"any":1}', 'null', 'null'],
  ['null', 'null', 'null'],
])('%s to %s is %s', (value, to, expected) => {
  expect(runText(cast({ a: to }), `{"a":${value}}`)).toBe(`{"a":${expected}}`)
})

test.each<[string, string]>([
  ['1.5', 'int64'],
  ['"1.5"', 'int64'],
  ['" 1"', 'int64'],
  ['9223372036854775808', 'int64'],
  ['1e30', 'int64'],
  ['true', 'int64'],
  ['"1e999"', 'float64'],
  ['"abc"', 'float64'],
  ['[]', 'string'],
  ['2', 'bool'],
])('%s to %s is an error', (value, to) => {
  expect(failure(cast({ a: to }), `{"a":${value}}`)).toMatch(/^cast: a: \w+ does not convert to /)
})

test('cast converts every match, for any root', () => {
  expect(run(cast({ '#.n': 'int64' }), '[{"n":"1"},{"n":"2"},{}]')).toEqual([[{ n: 1 }, { n: 2 }, {}]])
  expect(runText(cast({ nope: 'int64' }), '{"a": 1}')).toBe('{"a": 1}')
})

const zone = (config: Record<string, unknown>) => step('timezone', { fields: ['ts'], ...config })
const shifted = (config: Record<string, unknown>, value: string) => (run(zone(config), `{"ts":${value}}`) as { ts: unknown }[])[0]!.ts

test('[D41] timezone converts times to another zone', () => {
  const moscow = { timezone: 'Europe/Moscow' }
  expect(shifted(moscow, '"2024-01-15T12:00:00Z"')).toBe('2024-01-15T15:00:00+03:00')
  expect(shifted({ ...moscow, format: 'RFC3339' }, '"2024-01-15T12:00:00Z"')).toBe('2024-01-15T15:00:00+03:00')
  const utc = step('timezone', { timezone: 'UTC', fields: ['$.row.ts'] })
  expect(run(utc, '{"row":{"ts":1705320000}}')).toEqual([{ row: { ts: '2024-01-15T12:00:00Z' } }])
  expect(run(utc, '{"row":{"ts":1705320000000}}')).toEqual([{ row: { ts: '2024-01-15T12:00:00Z' } }])
  expect(shifted({ timezone: 'UTC', format: 'UnixMilli' }, '"2024-01-15T12:00:00Z"')).toBe(1_705_320_000_000)
  expect(run(zone(moscow), '{"ts":null,"x":1}')).toEqual([{ ts: null, x: 1 }])
  expect(runText(zone(moscow), '{"x": 1}')).toBe('{"x": 1}')
})

test('[D42] timezone rejects invalid times and zones, and uses the first repeated hour', () => {
  expect(failure(zone({ timezone: 'UTC' }), '{"ts":"not-a-time"}')).toBe('timezone: ts: is not a timestamp')
  expect(rulesBroken(zone({ timezone: 'Not/AZone' }))).toEqual(['V10'])
  expect(shifted({ timezone: 'UTC', sourceTimezone: 'America/New_York' }, '"2026-11-01T01:30:00"')).toBe('2026-11-01T05:30:00Z')
})

test.each<[Record<string, unknown>, string, unknown]>([
  [{ timezone: 'America/New_York' }, '"2026-07-01T00:00:00Z"', '2026-06-30T20:00:00-04:00'],
  [{ timezone: 'UTC', sourceTimezone: 'America/New_York' }, '"2026-03-08T02:30:00"', '2026-03-08T07:30:00Z'],
  [{ timezone: '+05:30' }, '"2026-01-01T00:00:00.120Z"', '2026-01-01T05:30:00.120+05:30'],
  [{ timezone: 'UTC', format: 'RFC3339' }, '"2026-01-01T00:00:00.999Z"', '2026-01-01T00:00:00Z'],
  [{ timezone: 'UTC' }, '"2026-01-01 10:20:30.123456789+02"', '2026-01-01T08:20:30.123456789Z'],
  [{ timezone: 'UTC' }, '"2026-01-01"', '2026-01-01T00:00:00Z'],
  [{ timezone: 'UTC' }, '"1705320000.25"', '2024-01-15T12:00:00.25Z'],
  [{ timezone: 'UTC' }, '1705320000123', '2024-01-15T12:00:00.123Z'],
  [{ timezone: 'UTC' }, '1705320000000.000001', '2024-01-15T12:00:00.000000001Z'],
  [{ timezone: 'UTC' }, '-1.5', '1969-12-31T23:59:58.5Z'],
  [{ timezone: 'UTC' }, '0', '1970-01-01T00:00:00Z'],
  [{ timezone: 'UTC', format: 'Unix' }, '"1969-12-31T23:59:58.5Z"', -2],
  [{ timezone: 'UTC', format: 'UnixMilli' }, '"1969-12-31T23:59:58.5Z"', -1500],
])('%j of %s is %s', (config, value, expected) => {
  expect(shifted(config, value)).toBe(expected)
})

test.each([
  'true',
  '{}',
  '""',
  '"2026-13-01T00:00:00Z"',
  '"2026-01-01T25:00:00Z"',
  '1e300',
  '99999999999999999999',
  '"9999-12-31T23:59:59-14:00"',
])('%s is no time', (value) => {
  expect(failure(zone({ timezone: 'UTC' }), `{"ts":${value}}`)).toBe('timezone: ts: is not a timestamp')
})

const insert = (fields: Record<string, string>) => step('insertField', { fields })

test('[D43] insertField inserts fixed values, metadata and the time', () => {
  const payload = '{"id":1,"name":"old"}'
  const metadata = { topic: 'orders', partition: 2, offset: 100, timestamp: new Date('2024-01-15T08:00:07.486Z') }
  expect(run(insert({ env: 'prod' }), payload)).toEqual([{ id: 1, name: 'old', env: 'prod' }])
  expect(run(insert({ 'flags.re': 'json:false' }), payload)).toEqual([{ id: 1, name: 'old', flags: { re: false } }])
  const each = { a: '${metadata.topic}', b: '${metadata.partition}', c: '${metadata.offset}', d: '${metadata.timestamp}' }
  expect(run(insert(each), payload, { metadata })).toEqual([
    { id: 1, name: 'old', a: 'orders', b: '2', c: '100', d: '2024-01-15T08:00:07.486Z' },
  ])
  expect(run(insert({ '$.name': 'new' }), payload)).toEqual([{ id: 1, name: 'new' }])
  expect(run(insert({ at: '${now}' }), payload)).toEqual([{ id: 1, name: 'old', at: '2026-01-16T13:55:03Z' }])
  expect(rulesBroken(insert({ a: 'json:{bad' }))).toEqual(['V17'])
})

test('insertField shares no value between messages; missing metadata is empty', () => {
  const chain = chainOf(
    insert({ o: 'json:{"n":9007199254740993}', h: '${metadata.headers.x}', t: 'at ${now}' }),
    step('timestamp', { fieldName: 'o.at' }, { when: 'first' }),
  )
  const texts = ['{"first":true}', '{"first":false}'].map((payload) => JSON.stringify(recordsOf(runChain(chain, payload))[0]!.json))
  expect(texts).toEqual([
    '{"first":true,"o":{"n":9007199254740993,"at":"2026-01-16T13:55:03Z"},"h":"","t":"at ${now}"}',
    '{"first":false,"o":{"n":9007199254740993},"h":"","t":"at ${now}"}',
  ])
})
