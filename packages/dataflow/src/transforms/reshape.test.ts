// headersToPayload, structFlatten, extractField, hoistField: small ones that move whole values.

import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { failure, rulesBroken, run, runText, step } from '../processor/test-parts/chains.ts'

test('[D35] headersToPayload moves headers into the payload', () => {
  const metadata = { headers: { 'X-Request-Id': 'req-123', lang: 'de' } }
  const map = (...mappings: string[]) => step('headersToPayload', { mappings })
  const payload = '{"id": 1}'
  expect(run(map('X-Request-Id:requestId'), payload, { metadata })).toEqual([{ id: 1, requestId: 'req-123' }])
  expect(run(map('lang:metadata.language'), payload, { metadata })).toEqual([{ id: 1, metadata: { language: 'de' } }])
  expect(run(map('X-Request-Id:$.requestId'), payload, { metadata })).toEqual([{ id: 1, requestId: 'req-123' }])
  expect(runText(map('x-request-id:a'), payload, { metadata })).toBe(payload)
  expect(runText(map('X-Request-Id:a'), payload)).toBe(payload)
})

test('headersToPayload accepts names with a colon and other header types', () => {
  expect(run(step('headersToPayload', { mappings: ['a\\:b:c'] }), '{}', { metadata: { headers: { 'a:b': 'x' } } })).toEqual([{ c: 'x' }])
  for (const headers of ['text', ['a'], null])
    expect(runText(step('headersToPayload', { mappings: ['0:c'] }), '{}', { metadata: { headers } })).toBe('{}')
  expect(runText(step('headersToPayload', { mappings: ['constructor:c'] }), '{}', { metadata: { headers: {} } })).toBe('{}')
})

const nestedLeaf = (parents: number): string => `${'{"a":'.repeat(parents)}1${'}'.repeat(parents)}`

test('[D36] structFlatten flattens nested objects', () => {
  const payload = '{"content":{"id":42,"name":{"first":"D","middle":null}},"items":[{"x":1}],"e":{}}'
  expect(run(step('structFlatten'), payload)).toEqual([
    { 'content.id': 42, 'content.name.first': 'D', 'content.name.middle': null, items: [{ x: 1 }] },
  ])
  expect(run(step('structFlatten', { delimiter: '_' }), payload)).toEqual([
    { content_id: 42, content_name_first: 'D', content_name_middle: null, items: [{ x: 1 }] },
  ])
  expect(runText(step('structFlatten'), '{"a": 1}')).toBe('{"a": 1}')
  expect(runText(step('structFlatten'), '[1, 2]')).toBe('[1, 2]')
  expect(run(step('structFlatten'), nestedLeaf(64))).toEqual([{ [Array.from({ length: 64 }, () => 'a').join('.')]: 1 }])
  expect(failure(step('structFlatten'), nestedLeaf(65))).toBe('structFlatten: $: has a value below more than 64 objects')
})

test('structFlatten keeps the later of equal keys', () => {
  expect(run(step('structFlatten'), '{"a":{"b":1},"a.b":2}')).toEqual([{ 'a.b': 2 }])
  expect(run(step('structFlatten'), '{"a.b":2,"a":{"b":1}}')).toEqual([{ 'a.b': 1 }])
  const leaf = fc.oneof(fc.integer(), fc.string(), fc.constant(null))
  const tree = fc.letrec<{ node: unknown }>((tie) => ({
    node: fc.oneof({ depthSize: 'small' }, leaf, fc.dictionary(fc.stringMatching(/^[a-z]{1,3}$/), tie('node'), { minKeys: 1, maxKeys: 3 })),
  })).node
  fc.assert(
    fc.property(fc.dictionary(fc.stringMatching(/^[a-z]{1,3}$/), tree, { maxKeys: 3 }), (nested) => {
      const [flat] = run(step('structFlatten'), { json: nested as Json }) as [Record<string, unknown>]
      const again: Record<string, unknown> = {}
      for (const [path, value] of Object.entries(flat)) {
        const keys = path.split('.')
        const owner = keys.slice(0, -1).reduce<Record<string, unknown>>((at, key) => (at[key] ??= {}) as Record<string, unknown>, again)
        owner[keys.at(-1)!] = value
      }
      expect(again).toEqual(nested)
    }),
  )
})

test('[D37] extractField replaces the payload by one value', () => {
  const extract = (field: string) => step('extractField', { field })
  const payload = '{"payload":{"after":{"id":1}},"items":[1,2,3],"deleted":null}'
  expect(run(extract('payload.after'), payload)).toEqual([{ id: 1 }])
  expect(run(extract('$.payload.after'), payload)).toEqual([{ id: 1 }])
  expect(run(extract('items'), payload)).toEqual([[1, 2, 3]])
  expect(run(extract('deleted'), payload)).toEqual([null])
  expect(run(extract('0'), '[{"id":1},{"id":2}]')).toEqual([{ id: 1 }])
})

test('extractField without a value does not change the payload', () => {
  expect(runText(step('extractField', { field: 'nope' }), '{"a": 1}')).toBe('{"a": 1}')
  expect(runText(step('extractField', { field: '$' }), '{"a": 1}')).toBe('{"a": 1}')
})

test('[D38] hoistField wraps the payload under one key', () => {
  const hoist = (field: string) => step('hoistField', { field })
  expect(run(hoist('record'), '{"id":1}')).toEqual([{ record: { id: 1 } }])
  expect(run(hoist('items'), '[1,2,3]')).toEqual([{ items: [1, 2, 3] }])
  expect(rulesBroken(hoist('a.b'))).toEqual(['V17'])
})

test('extractField inverts hoistField', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom('a', 'x y', '__proto__'), (json, field) => {
      const back = run([step('hoistField', { field }), step('extractField', { field: `$['${field}']` })], { json: json as Json })
      expect(JSON.stringify(back)).toEqual(JSON.stringify([json]))
    }),
  )
})
