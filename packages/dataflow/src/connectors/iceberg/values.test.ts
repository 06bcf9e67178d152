// Values, buckets, bounds and positions without a server: tables of cases.

import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { parquetMetadata } from 'hyparquet'
import { expect, test } from 'vitest'
import { parseLossless } from '../../message/json.ts'
import { readContainer, writeContainer } from './avro-container.ts'
import { buildFile, toBound } from './data-file.ts'
import { classifyAnswer, IcebergRejection, isUnknownOutcome } from './errors.ts'
import { hashBytes } from './hash-bytes.ts'
import { toUrl } from './object-store.ts'
import { parsePartitionBy, parseTransform } from './partition-values.ts'
import { judgeMoves, type Marker, markerName, printMarker, readMarker, withBatch, withMoved, withTakenOver } from './positions.ts'
import { findEqualityFields } from './scan.ts'
import { checkFormat, type IcebergType, toNewFields } from './schema.ts'
import { fromStored, type Stored, toStored } from './values.ts'

const field = (type: IcebergType, required = false) => ({ id: 1, name: 'c', required, type })

test.each([
  ['long', '9223372036854775807', 9223372036854775807n],
  ['long', '"12"', 12n],
  ['int', '-2147483648', -2147483648],
  ['decimal(38, 10)', '-1234567890123456789012345678.0123456789', -12345678901234567890123456780123456789n],
  ['decimal(9,2)', '-0.5', -50n],
  ['timestamp', '"2026-01-02T03:04:05.123456000"', 1767323045123456n],
  ['timestamptz', '"1969-12-31T23:59:59.999999Z"', -1n],
  ['timestamptz', '1700000000', 1700000000000000n],
  ['timestamptz', '1700000000123', 1700000000123000n],
  ['timestamptz', '1700000000.123456', 1700000000123456n],
  ['timestamptz', '-1.000001', -1000001n],
  ['timestamptz', '1700000000123.456', 1700000000123456n],
  ['date', '"1969-12-31"', -1],
  ['date', '"2026-01-02T23:00:00-05:00"', 20455],
  ['time', '"23:59:59.999999"', 86399999999n],
  ['boolean', '"true"', true],
  ['string', '{"a":[12345678901234567890.10]}', '{"a":[12345678901234567890.10]}'],
] as const)('%s of %s is stored as %s', (type, json, value) => {
  expect(toStored(field(type), parseLossless(json))).toEqual({ value })
})

test.each([
  ['long', '9223372036854775808', 'is outside the range of long'],
  ['long', '1.5', 'is not a whole number'],
  ['int', '2147483648', 'is outside the range of int'],
  ['float', '1e39', 'is outside the range of float'],
  ['double', '"NaN"', 'is not a number'],
  ['decimal(4, 2)', '1.234', 'does not fit decimal(4, 2)'],
  ['timestamp', '"2026-02-30"', 'is not a time'],
  ['timestamp', '"2026-01-02T03:04:05.123456789"', 'is finer than microseconds'],
  ['timestamptz', '1700000000.1234567', 'is finer than microseconds'],
  ['timestamptz', '1700000000123.4567', 'is finer than microseconds'],
  ['time', '"23:59:59.9999991"', 'is finer than microseconds'],
  ['date', 'true', 'is not a date'],
  ['time', '"24:00"', 'is not a time of day'],
  ['uuid', '"x"', 'is not a UUID'],
  ['binary', '"*"', 'is not base64'],
  ['fixed[2]', '"aGk0"', 'does not have 2 bytes'],
  ['boolean', '2', 'is not a boolean'],
  ['variant', '1', 'has the type variant, which cannot be written'],
] as const)('%s rejects %s', (type, json, problem) => {
  expect(toStored(field(type), parseLossless(json))).toEqual({ problem })
})

test('a new column for times finer than microseconds is text', () => {
  const typesOf = (...values: string[]) => toNewFields(new Map([['c', values]]), 0).map(({ type }) => type)
  expect(typesOf('2026-01-02T03:04:05Z', '2026-01-02T03:04:05.123456000Z')).toEqual(['timestamptz'])
  expect(typesOf('2026-01-02T03:04:05Z', '2026-01-02T03:04:05.123456789Z')).toEqual(['string'])
})

test.each([
  ['long', 9007199254740993n, '9007199254740993'],
  ['decimal(9, 2)', -5, '-0.05'],
  ['decimal(38, 0)', Buffer.from('ff', 'hex'), '-1'],
  ['timestamptz', -1n, '"1969-12-31T23:59:59.999999Z"'],
  ['date', -1, '"1969-12-31"'],
  ['double', Number.NaN, 'null'],
] as const)('a stored %s is read as JSON', (type, value, text) => {
  expect(JSON.stringify(fromStored(type, value as Stored))).toBe(text)
})

/** Values of the appendix of the Iceberg specification. */
test('buckets are those of the specification', () => {
  const long = Buffer.alloc(8)
  long.writeBigInt64LE(34n)
  expect(hashBytes(long)).toBe(2017239379)
  expect(hashBytes(Buffer.from('iceberg'))).toBe(1210000089)
  expect(hashBytes(Buffer.from([0, 1, 2, 3]))).toBe(-188683207)
  expect(hashBytes(Buffer.from('f79c3e09677c4bbda4793f349cb785e7', 'hex'))).toBe(1488055340)
  expect(parseTransform('bucket[16]')!.apply(1420n, 'decimal(9,2)')).toBe((-500754589 & 0x7fffffff) % 16)
  expect(parseTransform('truncate[10]')!.apply(-1, 'int')).toBe(-10)
  expect(parseTransform('truncate[10]')!.apply(-1n, 'long')).toBe(-10n)
  expect(parseTransform('truncate[2]')!.apply('😀😀😀', 'string')).toBe('😀😀')
  expect(parseTransform('month')!.apply(-1, 'date')).toBe(-1)
  expect(parseTransform('hour')!.apply(-1n, 'timestamptz')).toBe(-1)
})

test('partitionBy is read, and what it cannot be is refused', () => {
  const schema = { type: 'struct' as const, fields: [field('long')] }
  expect(parsePartitionBy(['bucket( 16 , c )'], schema)).toEqual([
    { 'source-id': 1, 'field-id': 1000, name: 'c_bucket', transform: 'bucket[16]' },
  ])
  for (const text of ['day(c)', 'x', 'bucket(0,c)', 'void(c)', 'day(', 'hash(c)'])
    expect(() => parsePartitionBy([text], schema)).toThrow('partitionBy')
})

test('a bound of a long text is shorter and still a bound', () => {
  expect(String(toBound('string', 'a'.repeat(20), false))).toBe('a'.repeat(16))
  expect(String(toBound('string', 'a'.repeat(20), true))).toBe(`${'a'.repeat(15)}b`)
  expect(toBound('string', '\u{10ffff}'.repeat(20), true)).toBeUndefined()
  expect(toBound('binary', Buffer.alloc(20, 0xff), true)).toBeUndefined()
})

test('a file has the ids of its fields, and its metrics count nulls', () => {
  const schema = { type: 'struct' as const, fields: [field('long'), { ...field('string'), id: 7, name: 'd' }] }
  const { bytes, metrics } = buildFile(schema, [
    [2n, 'b'],
    [-1n, null],
  ])
  const metadata = parquetMetadata(bytes.buffer as ArrayBuffer)
  expect(metadata.schema.map(({ field_id }) => field_id)).toEqual([undefined, 1, 7])
  expect([...metrics.nullCounts]).toEqual([
    [1, 0n],
    [7, 1n],
  ])
  expect(Buffer.from(metrics.lowerBounds.get(1)!).readBigInt64LE()).toBe(-1n)
})

test('a container keeps integers of 64 bits and the ids of fields; a damaged one is a clear error', () => {
  const schema = { type: 'record', name: 'r', fields: [{ name: 'id', type: ['null', 'long'], default: null, 'field-id': 5 }] }
  const file = writeContainer(schema, { a: 'b' }, [{ id: 9223372036854775807n }, { id: null }])
  expect(readContainer(file, 'x')).toMatchObject({ schema, meta: { a: 'b' }, records: [{ id: 9223372036854775807n }, { id: null }] })
  for (const damaged of [file.subarray(0, 30), file.subarray(0, -20), Buffer.from('no')])
    expect(() => readContainer(damaged, 'a manifest')).toThrow('a manifest is not a readable Avro file')
})

test('positions decide whether a batch is open, committed or fenced', () => {
  const compare = (left: unknown, right: unknown) => Number(left) - Number(right)
  const judge = (marker: Marker, part: object) =>
    judgeMoves(marker, [{ source: 'o/0', epoch: 2, expected: 5, position: 9, ...part }], compare)
  const marker = (epoch: number, position: number | null): Marker => ({ owned: { 'o/0': { epoch, position } }, batches: [] })
  expect(judge(marker(2, 5), {})).toBe('open')
  expect(judge(marker(2, 9), {})).toBe('committed')
  expect(judge(marker(3, 5), {})).toBe('fenced')
  expect(judge(marker(2, 7), {})).toBe('fenced')
  expect(judge(marker(1, 9), {})).toBe('fenced')
  expect(judge({ owned: {}, batches: [] }, { expected: null })).toBe('open')
  expect(judge({ owned: {}, batches: [] }, {})).toBe('fenced')
  const half = [
    { source: 'o/0', epoch: 2, expected: 5, position: 9 },
    { source: 'o/1', epoch: 2, expected: null, position: 1 },
  ]
  expect(judgeMoves(marker(2, 9), half, compare)).toBe('fenced')
  expect(judgeMoves(marker(2, 5), [], compare)).toBe('open')
  expect(() => readMarker({ x: '{' }, 'x')).toThrow('the table property x was changed')
  const taken = withTakenOver(marker(4, 5), ['o/0', 'o/1'], 2)
  expect(taken.owned).toEqual({ 'o/0': { epoch: 5, position: 5 }, 'o/1': { epoch: 2, position: null } })
  const moved = withBatch(withMoved(taken, [{ source: 'o/1', epoch: 2, expected: null, position: 1 }]), 'id')
  expect(readMarker({ [markerName('k')]: printMarker('k', moved) }, markerName('k'))).toMatchObject(moved)
})

test.each([
  [401, '', 'config'],
  [403, 'AccessDenied', 'config'],
  [404, 'NoSuchBucket', 'config'],
  [400, 'ExpiredToken', 'transient'],
  [409, '', 'transient'],
  [429, '', 'transient'],
  [503, 'SlowDown', 'transient'],
] as const)('an answer %s %s is %s', (status, kind, errorClass) => {
  expect(classifyAnswer({ status, kind }).class).toBe(errorClass)
})

test.each([
  [new IcebergRejection('catalog', { status: 503 }), true],
  [new IcebergRejection('catalog', { status: 400 }), false],
  [new IcebergRejection('object store', { status: 503 }), false],
  [new Retryable('timeout', { code: 'timeout' }), true],
  [new Terminal('too large', { code: 'answer_too_large' }), true],
  [new Terminal('refused', { code: 'address_refused' }), false],
] as const)('whether the commit happened after %s is unknown: %s', (thrown, isUnknown) => {
  expect(isUnknownOutcome(thrown)).toBe(isUnknown)
})

test('only format version 2 is accepted', () => {
  expect(checkFormat({ formatVersion: 2 })).toBeUndefined()
  for (const formatVersion of [1, 3, Number.NaN])
    expect(() => checkFormat({ formatVersion })).toThrow(`has format version ${formatVersion}`)
})

test('a location leads to its own bucket alone', () => {
  const settings = { endpoint: 'https://s3.example:9000', region: 'r' }
  expect(toUrl('s3://lake.a_b/x y/1.parquet', { ...settings, isPathStyle: true })).toBe('https://s3.example:9000/lake.a_b/x%20y/1.parquet')
  expect(toUrl('s3a://lake/x', { ...settings, isPathStyle: false })).toBe('https://lake.s3.example:9000/x')
  for (const location of ['s3://u@evil#/x', 's3://../x', 's3://evil.example?/x', 's3://lake/../other/x', 's3://lake/a/./x'])
    for (const isPathStyle of [true, false]) expect(() => toUrl(location, { ...settings, isPathStyle })).toThrow('is not valid')
})

test('a delete by the values of a column that is gone is refused', () => {
  const schema = { type: 'struct' as const, 'schema-id': 0, fields: [field('long'), { ...field('string'), id: 7, name: 'd' }] }
  expect(findEqualityFields(schema, [7]).map(({ name }) => name)).toEqual(['d'])
  for (const ids of [[1, 2], [2], []]) expect(() => findEqualityFields(schema, ids)).toThrow('that the table no longer has')
})
