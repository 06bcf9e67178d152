import { expect, test } from 'vitest'
import { chainOf, failure, recordsOf, runChain, runText, step, textOf } from '../processor/test-parts/chains.ts'

const row = { id: 1, name: 'alice' }
const source = { table: 'orders', lsn: 5 }
const event = (op: string, parts: object): string => JSON.stringify({ payload: { op, source, ...parts } })
const unwrap = (config = {}) => step('debeziumUnwrap', config)

function unwrapped(config: object, payload: string | undefined, around = {}) {
  const [record] = recordsOf(runChain(chainOf(unwrap(config)), payload, { metadata: { topic: 't' }, ...around }))
  return { payload: JSON.parse(textOf(record!)!) as unknown, metadata: record!.metadata }
}

test('[D28] debeziumUnwrap emits the row of each kind of change', () => {
  const metadata = (operation: string) => ({ topic: 't', operation, id: 1 })
  expect(unwrapped({}, event('c', { before: null, after: row }))).toEqual({ payload: row, metadata: metadata('insert') })
  expect(unwrapped({}, event('u', { before: {}, after: row }))).toEqual({ payload: row, metadata: metadata('update') })
  expect(unwrapped({}, event('d', { before: row, after: null }))).toEqual({ payload: row, metadata: metadata('delete') })
})

test('[D29] debeziumUnwrap adds change fields to the payload', () => {
  for (const op of ['c', 'u'])
    expect(unwrapped({ addOperationFields: true, addSourceFields: ['table', 'lsn', 'missing'] }, event(op, { after: row }))).toEqual({
      payload: { ...row, source_table: 'orders', source_lsn: 5, __op: op, __deleted: 'false' },
      metadata: { topic: 't', operation: op === 'c' ? 'insert' : 'update', id: 1 },
    })
  expect(unwrapped({ addOperationFields: true }, event('d', { before: row }))).toMatchObject({ payload: { __op: 'd', __deleted: 'true' } })
})

test('[D30] debeziumUnwrap adds selected source fields, and all to the metadata', () => {
  const origin = { table: 'orders', ts_ms: 1_700_000_000_000, db: 'app' }
  const config = { addOperationFields: true, addSourceFields: ['table', 'db'], includeSourceInMetadata: true }
  expect(unwrapped(config, event('u', { after: row, source: origin }))).toEqual({
    payload: { ...row, source_table: 'orders', source_db: 'app', __op: 'u', __deleted: 'false' },
    metadata: { topic: 't', operation: 'update', id: 1, source_table: 'orders', source_ts_ms: 1_700_000_000_000, source_db: 'app' },
  })
})

test('[D31] debeziumUnwrap handles tombstones, other payloads and bare events', () => {
  const key = '{"payload":{"id":42}}'
  expect(runChain(chainOf(unwrap()), '', { key })).toEqual({ do: 'drop', reason: 'tombstone' })
  expect(runChain(chainOf(unwrap()), undefined, { key })).toEqual({ do: 'drop', reason: 'tombstone' })
  expect(unwrapped({ inferDeleteFromTombstone: true }, undefined, { key })).toEqual({
    payload: { id: 42 },
    metadata: { topic: 't', operation: 'delete', id: 42 },
  })
  expect(unwrapped({ inferDeleteFromTombstone: true, addOperationFields: true, addSourceFields: ['ts_ms'] }, undefined, { key })).toEqual({
    payload: { id: 42, __op: 'd', __deleted: 'true' },
    metadata: { topic: 't', operation: 'delete', id: 42 },
  })
  expect(runText(unwrap(), '{"event": "x"}')).toBe('{"event": "x"}')
  expect(unwrapped({}, '{"op":"c","after":{"id":1},"source":{}}').payload).toEqual({ id: 1 })
})

test('[D32] an event that cannot be unwrapped fails with the path', () => {
  expect(failure(unwrap(), event('u', { after: null }))).toBe('debeziumUnwrap: payload.after: is not an object')
  expect(failure(unwrap(), event('x', { after: row }))).toBe('debeziumUnwrap: payload.op: is not a known operation')
  expect(failure(unwrap(), '[1]')).toBe('debeziumUnwrap: $: is an array')
})

test('debeziumUnwrap handles snapshots, events without rows, keys and scalars', () => {
  expect(unwrapped({ snapshotOperation: 'update' }, event('r', { after: row })).metadata).toMatchObject({ operation: 'update' })
  for (const op of ['t', 'm']) expect(runChain(chainOf(unwrap()), event(op, {}))).toEqual({ do: 'drop', reason: 'tombstone' })
  expect(unwrapped({ inferDeleteFromTombstone: true }, '', { key: '{"id":7}' }).payload).toEqual({ id: 7 })
  expect(runChain(chainOf(unwrap({ inferDeleteFromTombstone: true })), '', { key: 'x' })).toEqual({ do: 'drop', reason: 'tombstone' })
  expect(runText(unwrap(), 'not-json')).toBe('not-json')
  expect(runText(unwrap(), '5')).toBe('5')
  expect(unwrapped({}, event('c', { after: { name: 'x' } })).metadata).toEqual({ topic: 't', operation: 'insert' })
})

test('payload and metadata do not share values', () => {
  const config = { addSourceFields: ['nested'], includeSourceInMetadata: true }
  const chain = chainOf(unwrap(config), step('mask', { fields: ['source_nested.a'] }))
  const [record] = recordsOf(runChain(chain, event('c', { after: row, source: { nested: { a: 1 } } })))
  expect(record!.json).toMatchObject({ source_nested: { a: '***' } })
  expect(record!.metadata).toMatchObject({ source_nested: { a: 1 } })
})
