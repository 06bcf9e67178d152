// Rules of the Trino connector as tables of cases.
import { rawNumber } from '@brokkr/contract/dataflow/language/json.ts'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { expect, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { ConnectorError } from '../connector.ts'
import { classifyQueryError, TrinoQueryFailed, TrinoRejection, toTrinoError } from './errors.ts'
import { toLiteral } from './literals.ts'
import { valueText } from './polling.ts'
import { quotePlace, toPlace } from './sql.ts'
import { buildInserts } from './statements.ts'

const no = expect.objectContaining({ problem: expect.any(String) })
const sql = (text: string) => ({ sql: text })

test.each([
  ['bigint', rawNumber('9223372036854775807'), sql(`bigint '9223372036854775807'`)],
  ['bigint', rawNumber('9223372036854775808'), no],
  ['bigint', 'abc', no],
  ['bigint', 1.5, no],
  ['tinyint', 127, sql(`tinyint '127'`)],
  ['tinyint', 128, no],
  ['double', 0.1, sql(`double '0.1'`)],
  ['double', 'x', no],
  ['real', 1e300, no],
  ['decimal(10,2)', rawNumber('12345678.91'), sql(`CAST('12345678.91' AS decimal(10,2))`)],
  ['decimal(10,2)', 1.234, no],
  ['boolean', 'false', sql('FALSE')],
  ['boolean', 'no', no],
  ['varchar', `it's`, sql(`CAST('it''s' AS varchar)`)],
  ['varchar(2)', 'äöü', no],
  ['varchar', { a: [1] }, sql(`CAST('{"a":[1]}' AS varchar)`)],
  ['json', { a: "'" }, sql(`JSON '{"a":"''"}'`)],
  ['row(a bigint)', { a: 1 }, sql(`CAST(JSON '{"a":1}' AS row(a bigint))`)],
  ['array(bigint)', 5, no],
  ['uuid', 'x', no],
  ['varbinary', 'aGk=', sql(`from_base64('aGk=')`)],
  ['varbinary', `');drop`, no],
  ['date', '2026-01-02', sql(`DATE '2026-01-02'`)],
  ['date', 'soon', no],
  ['HyperLogLog', 'x', no],
  ['bigint', null, sql('CAST(NULL AS bigint)')],
  ['timestamp(6)', '2026-01-16T13:55:03+08:00', sql(`TIMESTAMP '2026-01-16 05:55:03'`)],
  ['timestamp(6)', '2026-01-16T13:55:03Z', sql(`TIMESTAMP '2026-01-16 13:55:03'`)],
  ['timestamp(6)', '2026-01-16 13:55:03.5', sql(`TIMESTAMP '2026-01-16 13:55:03.5'`)],
  ['timestamp(6)', 1768571703, sql(`TIMESTAMP '2026-01-16 13:55:03.000'`)],
  ['timestamp(6)', 1768571703000, sql(`TIMESTAMP '2026-01-16 13:55:03.000'`)],
  ['timestamp(9)', '2026-01-16T13:55:03.123456789Z', sql(`TIMESTAMP '2026-01-16 13:55:03.123456'`)],
  ['timestamp(3) with time zone', '2026-01-16T13:55:03.123456Z', sql(`TIMESTAMP '2026-01-16 13:55:03.123 UTC'`)],
  ['timestamp(6)', '2026-02-30T00:00:00Z', no],
])('[D102] %s prints %j exactly or rejects it', (type, value, expected) => {
  expect(toLiteral({ name: 'c', type, isNullable: true }, value)).toEqual(expected)
})

test('a column without null rejects null and missing values', () => {
  expect(toLiteral({ name: 'c', type: 'bigint', isNullable: false }, undefined)).toEqual(no)
})

test.each([
  [{ errorName: 'INVALID_CAST_ARGUMENT', errorType: 'USER_ERROR', message: `Cannot cast 'hunter2'` }, 'record'],
  [{ errorName: 'SYNTAX_ERROR', errorType: 'USER_ERROR' }, 'config'],
  [{ errorName: 'TABLE_NOT_FOUND', errorType: 'USER_ERROR' }, 'config'],
  [{ errorName: 'PERMISSION_DENIED', errorType: 'USER_ERROR' }, 'config'],
  [{ errorName: 'TOO_MANY_REQUESTS_FAILED', errorType: 'INTERNAL_ERROR' }, 'transient'],
  [{ errorName: 'CLUSTER_OUT_OF_MEMORY', errorType: 'INSUFFICIENT_RESOURCES' }, 'transient'],
  [{ errorName: 'ICEBERG_COMMIT_ERROR', errorType: 'EXTERNAL' }, 'transient'],
  [{ errorName: 'GENERIC_INTERNAL_ERROR', errorType: 'INTERNAL_ERROR', message: 'Worker node disappeared' }, 'transient'],
  [{ errorName: 'GENERIC_INTERNAL_ERROR', errorType: 'INTERNAL_ERROR', message: 'oops' }, 'unknown'],
])('%j is class %s', (error, kind) => {
  expect(classifyQueryError(error).class).toBe(kind)
  if (kind === 'record') expect(toTrinoError(new TrinoQueryFailed(error), 'write').message).not.toContain('hunter2')
})

test.each([
  [new TrinoRejection(401), 'config', 'auth_error'],
  [new TrinoRejection(503, 5), 'transient', 'transient'],
  [new TrinoRejection(404), 'config', 'unknown'],
  [new Retryable('x', { code: 'timeout' }), 'transient', 'timeout'],
  [new Terminal('x', { code: 'address_refused' }), 'config', 'connection_error'],
])('%s is class %s', (thrown, kind, type) => {
  expect(toTrinoError(thrown, 'read')).toMatchObject({ class: kind, type })
})

test('statements are cut by the length of their text, in order', () => {
  const columns = new Map([['s', { name: 's', type: 'varchar', isNullable: true }]])
  const config = {
    unknownFields: 'deadLetter',
    rawMode: false,
    flattenMetadataColumns: false,
    flattenMetadataColumnsPrefix: undefined,
  } as const
  const rec = (s: string) => newMessage({ raw: Buffer.from(JSON.stringify({ s })), metadata: {}, position: 0, partition: 0 })
  const records = Array.from({ length: 10 }, (_, index) => rec(`${index}${'ü'.repeat(100_000)}`))
  const statements = buildInserts(records, '"t"', columns, config)
  expect(statements.map((one) => one.records.length)).toEqual([4, 4, 2])
  expect(statements.flatMap((one) => one.records)).toEqual(records)
  expect(Math.max(...statements.map((one) => Buffer.byteLength(one.sql)))).toBeLessThanOrEqual(900_000)
  const failure = (work: () => unknown) => {
    try {
      work()
      return undefined
    } catch (error) {
      return error as ConnectorError
    }
  }
  expect(failure(() => buildInserts([rec('a'), rec('x'.repeat(1_000_000))], '"t"', columns, config))).toMatchObject({
    class: 'record',
    recordIndex: 1,
  })
})

test.each([
  ['bigint', rawNumber('9007199254740993'), '9007199254740993'],
  ['decimal(30,10)', '12345678901234567890.0123456789', '12345678901234567890.0123456789'],
  ['timestamp(6) with time zone', '2026-01-02 03:04:05.000006 UTC', '"2026-01-02T03:04:05.000006Z"'],
  ['timestamp(6)', '2026-01-02 03:04:05.000006', '"2026-01-02T03:04:05.000006"'],
  ['row(a bigint)', '{"a":9007199254740993}', '{"a":9007199254740993}'],
  ['varchar', '{"a":1}', '"{\\"a\\":1}"'],
  ['double', null, 'null'],
])('a value of %s is read as JSON with all digits: %j', (type, value, text) => {
  expect(valueText(type, value)).toBe(text)
})

test('names are completed and quoted', () => {
  expect(quotePlace(toPlace('a"b', { catalog: 'c', schema: 's' }))).toBe('"c"."s"."a""b"')
  expect(quotePlace(toPlace('x.y.z', { catalog: 'c', schema: 's' }))).toBe('"x"."y"."z"')
})
