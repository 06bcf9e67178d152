// Rules of the ClickHouse connector as tables of cases.
import { rawNumber } from '@brokkr/contract/dataflow/language/json.ts'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { describe, expect, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import { inferType } from '../column-values.ts'
import type { Rec } from '../connector.ts'
import { BatchLedger } from './batch-ledger.ts'
import { parseConnection } from './client.ts'
import { createTableText } from './create-table.ts'
import { ClickhouseRejection, toClickhouseError } from './errors.ts'
import { withLabel } from './rows.ts'
import { toColumn, whyNotDeduplicated } from './table.ts'
import { fitValue } from './values.ts'

const column = (type: string, defaultKind = '') => toColumn({ name: 'c', type, default_kind: defaultKind })
const no = expect.objectContaining({ problem: expect.any(String) })

test.each([
  ['Int64', rawNumber('9223372036854775807'), { value: rawNumber('9223372036854775807') }],
  ['Int64', rawNumber('9223372036854775808'), no],
  ['UInt8', 256, no],
  ['UInt8', -1, no],
  ['Int32', 1.5, no],
  ['Int32', 'abc', no],
  ['Int32', '12', { value: '12' }],
  ['Int32', true, no],
  ['LowCardinality(Nullable(String))', null, { value: null }],
  ['Int64', null, no],
  ['Decimal(10, 2)', rawNumber('12345678.91'), { value: rawNumber('12345678.91') }],
  ['Decimal(10, 2)', 1.234, no],
  ['Decimal(10, 2)', 123456789, no],
  ['DateTime64(6)', 1700000000, { value: '2023-11-14T22:13:20.000Z' }],
  ['DateTime64(6)', 1700000000123, { value: '2023-11-14T22:13:20.123Z' }],
  ['DateTime64(6)', '2026-01-16T13:55:03.123456789+08:00', { value: '2026-01-16T13:55:03.123456789+08:00' }],
  ['DateTime', '2500-01-01T00:00:00Z', no],
  ['DateTime', 'soon', no],
  ['Date', '2026-01-02T03:04:05Z', { value: '2026-01-02' }],
  ['Bool', 'true', { value: true }],
  ['Bool', 'yes', no],
  ['String', { a: 1 }, { value: { a: 1 } }],
  ['DateTime', '2026-01-02T25:00:00Z', no],
  ['Float32', 1e300, no],
  ['Float64', Number.POSITIVE_INFINITY, no],
  ['Float64', 'nan', { value: 'nan' }],
  ['Array(Int8)', [1, 127], { value: [1, 127] }],
  ['Array(Int8)', [128], no],
  ['Array(Int8)', [null], no],
  ['Array(Nullable(Int8))', [null], { value: [null] }],
  ['Array(Decimal(5, 2))', [1.239], no],
  ['Array(DateTime)', [1700000000], { value: ['2023-11-14T22:13:20.000Z'] }],
  ['Map(String, Array(UInt8))', { a: [1], b: [256] }, no],
  ['Map(String, Bool)', { a: 'true' }, { value: { a: true } }],
  ["Tuple(a Int8, b Enum8('x, (' = 1), c String)", { a: 5, c: 'y' }, { value: { a: 5, c: 'y' } }],
  ['Tuple(a Int8, b String)', { a: 300 }, no],
  ['Tuple(Int8, Decimal(5, 2))', [1, 1.239], no],
])('a value of %s fits or is rejected, never changed: %j', (type, value, expected) => {
  expect(fitValue(column(type), value)).toEqual(expected)
})

test.each([
  ['http://u:p%40@h:8123/db', { url: 'http://h:8123', database: 'db', user: 'u', password: 'p@' }],
  ['https://h/db', { url: 'https://h', database: 'db', user: 'default', password: '' }],
  ['clickhouse://u:p@h:9000/db', { url: 'http://h:8123', database: 'db', user: 'u', password: 'p' }],
  ['clickhouse://h:9440/db?secure=true', { url: 'https://h:8443', database: 'db', user: 'default', password: '' }],
])('a connection string is mapped to the HTTP interface: %s', (connectionString, expected) => {
  expect(parseConnection({ connectionString, httpPort: undefined })).toEqual(expected)
  expect(parseConnection({ connectionString, httpPort: 99 }).url).toMatch(/:99$/)
})

test.each(['', 'http://u:%zz@h/db', 'host:8123', 'tcp://h/db', 'postgres://u:secret@h/db'])(
  'another text is no connection string: %j',
  (connectionString) => {
    expect(() => parseConnection({ connectionString, httpPort: undefined })).toThrow(/^connectionString is not an address/)
  },
)

test.each([
  [27, 'record', 'invalid_data'],
  [60, 'config', 'unknown'],
  [516, 'config', 'auth_error'],
  [201, 'transient', 'transient'],
  [241, 'transient', 'transient'],
  [159, 'transient', 'timeout'],
  [9999, 'unknown', 'unknown'],
])('code %i is class %s', (code, kind, type) => {
  const text = `Code: ${code}. DB::Exception: Cannot parse 'hunter2': (while reading the value of key n): (at row 3)\n (SOME_NAME) (version 1)`
  const error = toClickhouseError(new ClickhouseRejection({ status: 500, code, text }), 'write')
  expect([error.class, error.type]).toEqual([kind, type])
  if (kind === 'record') {
    expect(error.recordIndex).toBe(2)
    expect(error.message).toBe(`cannot write: ${code} SOME_NAME in column n`)
  }
})

test.each([
  [401, 'config'],
  [403, 'config'],
  [404, 'config'],
  [429, 'transient'],
  [500, 'transient'],
  [503, 'transient'],
])('HTTP %i of a proxy is class %s and its text is left out', (status, kind) => {
  const error = toClickhouseError(new ClickhouseRejection({ status, code: undefined, text: '<h1>hunter2', retryAfterMs: 7 }), 'write')
  expect([error.class, error.retryAfterMs, error.message.includes('hunter2')]).toEqual([kind, 7, false])
})

test('failures of the connection are retried, rejected addresses are reported', () => {
  expect(toClickhouseError(new Retryable('gone', { code: 'unreachable' }), 'read')).toMatchObject({ class: 'transient' })
  expect(toClickhouseError(new Retryable('late', { code: 'timeout' }), 'read')).toMatchObject({ type: 'timeout' })
  expect(toClickhouseError(new Terminal('no', { code: 'address_refused' }), 'read')).toMatchObject({ class: 'config' })
})

test.each([
  [[1, 2], 'int64'],
  [[1, 2.5], 'float64'],
  [[rawNumber('9007199254740993'), 9007199254740992000], 'int64'],
  [[rawNumber('9007199254740993'), 1.5], 'text'],
  [[rawNumber('123456789012345678901234567890')], 'text'],
  [[rawNumber('0.12345678901234567890')], 'text'],
  [[true, null], 'boolean'],
  [['2026-01-02T03:04:05Z'], 'time'],
  [['a', '2026-01-02T03:04:05Z'], 'text'],
  [[{ a: 1 }, [1]], 'text'],
  [[null], 'text'],
])('a new column for %j is of type %s', (values, type) => {
  expect(inferType(values)).toBe(type)
})

test('a created table orders by its key and can hold batches exactly once', () => {
  const config = { tableEngine: 'MergeTree', replacingVersionColumn: undefined, conflictKey: ['id'], upsertMode: false } as const
  const fields = new Map([
    ['id', [1, 2]],
    ['a`b', ['x', null]],
  ])
  expect(createTableText('`t`', config, fields, 2)).toBe(
    'create table if not exists `t` (`id` Int64, `a\\`b` Nullable(String), `_brokkr_batch` LowCardinality(String)) engine = MergeTree order by (`id`) settings non_replicated_deduplication_window = 1000',
  )
  expect(createTableText('`t`', config, fields, 3)).toContain('order by tuple()')
})

const labelled = new Map([['_brokkr_batch', column('LowCardinality(String)')]])
test.each([
  ['MergeTree', 'MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100', '', labelled, undefined],
  ['ReplicatedMergeTree', "ReplicatedMergeTree('/a', 'b') ORDER BY id", '', labelled, undefined],
  ['MergeTree', 'MergeTree ORDER BY id', '', labelled, 'window'],
  ['MergeTree', 'MergeTree SETTINGS non_replicated_deduplication_window = 100', 'toDate(t)', labelled, 'partition key'],
  ['MergeTree', 'MergeTree SETTINGS non_replicated_deduplication_window = 100', '', new Map(), 'column'],
  ['ReplacingMergeTree', '', '', labelled, 'engine'],
])('%s %s finds repeated batches or says why not', (engine, full, partitionKey, columns, reason) => {
  const found = whyNotDeduplicated({ engine, engine_full: full, partition_key: partitionKey }, columns)
  if (reason === undefined) expect(found).toBeUndefined()
  else expect(found).toContain(reason)
})

test('a label is added to a line without changing the rest', () => {
  expect(withLabel('{ "a":1}', 'x')).toBe('{"_brokkr_batch":"x","a":1}')
  expect(withLabel('{ }', 'x')).toBe('{"_brokkr_batch":"x"}')
})

describe('the ledger', () => {
  const rec = (position: number, partition = 0): Rec => newMessage({ metadata: {}, position, partition })
  const create = () => new BatchLedger((left, right) => Number(left) - Number(right))
  const records = [rec(1), rec(2), rec(3), rec(4)]
  const upTo = (position: number) => new Map([[0, position]])

  test('a batch whose answer is lost is in doubt, and stored records are not written again', () => {
    const ledger = create()
    const { doubt, attempt } = ledger.begin(records, upTo(4))
    expect(ledger.findDoubt(records)?.records).toEqual(records)
    expect(ledger.repeat(doubt, records, upTo(4))).toBe(attempt)
    ledger.settle(doubt, attempt)
    expect(ledger.withoutStored(records)).toEqual([])
    expect(ledger.written.get(0)).toBe(4)
  })

  test('a part that took over the token is stored alone', () => {
    const ledger = create()
    const { doubt } = ledger.begin(records, upTo(4))
    const half = records.slice(0, 2)
    const second = ledger.repeat(doubt, half, upTo(2))
    ledger.settle(doubt, second)
    expect(ledger.withoutStored(records)).toEqual(records.slice(2))
    expect(ledger.findDoubt(records.slice(2))).toBeUndefined()
  })

  test('a token without rows leaves everything to be written', () => {
    const ledger = create()
    const { doubt } = ledger.begin(records, upTo(4))
    ledger.settle(doubt, undefined)
    expect(ledger.withoutStored(records)).toEqual(records)
    expect(ledger.findDoubt(records)).toBeUndefined()
  })

  test('after a restart positions identify the batch in doubt, and what lies beyond is another batch', () => {
    const before = create()
    before.settle(before.begin([rec(1)], upTo(1)).doubt, { label: 'a', records: new Set(), upTo: upTo(1) })
    const { doubt } = before.begin([rec(2), rec(3)], upTo(3))
    const state = JSON.parse(JSON.stringify(before.toState('topic'))) as ReturnType<typeof before.toState>
    const after = create()
    after.restore(state, 'topic')
    const again = [rec(1), rec(2), rec(3), rec(4)]
    const rest = after.withoutStored(again)
    expect(rest.map(({ position }) => position)).toEqual([2, 3, 4])
    const found = after.findDoubt(rest)!
    expect([found.doubt.token, found.records.map(({ position }) => position)]).toEqual([doubt.token, [2, 3]])
    const attempt = after.repeat(found.doubt, found.records, upTo(4))
    expect([attempt.label === doubt.attempts[0]!.label, attempt.upTo.get(0)]).toEqual([false, 3])
    after.settle(found.doubt, found.doubt.attempts[0])
    expect(after.withoutStored(rest).map(({ position }) => position)).toEqual([4])
  })

  test('positions of another history are ignored', () => {
    const before = create()
    before.begin(records, upTo(4))
    const after = create()
    after.restore(before.toState('topic'), 'another')
    expect([after.written.size, after.findDoubt(records)]).toEqual([0, undefined])
  })
})
