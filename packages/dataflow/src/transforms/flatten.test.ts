import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { chainOf, failure, recordsOf, route, run, runChain, runText, step } from '../processor/test-parts/chains.ts'

const flatten = (field: string) => step('flatten', { field })

test('[D14] flatten emits one message per element, in order, with the parent', () => {
  expect(run(flatten('items'), '{"id":1,"items":[{"name":"item1"},{"name":"item2"}]}')).toEqual([
    { id: 1, name: 'item1' },
    { id: 1, name: 'item2' },
  ])
})

test('[D15] flatten accepts elements of every type and empty arrays', () => {
  expect(run(flatten('items'), '{"id":7,"items":[{"a":1},5,null]}')).toEqual([
    { id: 7, a: 1 },
    { id: 7, items: 5 },
    { id: 7, items: null },
  ])
  expect(run(flatten('items'), '{"id":7,"items":[{"sku":"a","id":1},{"sku":"b"}]}')).toEqual([
    { id: 1, sku: 'a' },
    { id: 7, sku: 'b' },
  ])
  expect(run(flatten('tags'), '{"id":7,"tags":["x",null]}')).toEqual([
    { id: 7, tags: 'x' },
    { id: 7, tags: null },
  ])
  expect(run(flatten('items'), '{"id":7,"items":[]}')).toEqual([{ id: 7 }])
  expect(runText(flatten('items'), '{"id": 7}')).toBe('{"id": 7}')
  expect(runText(flatten('items'), '{"id":7,"items": 5}')).toBe('{"id":7,"items": 5}')
  expect(run(flatten('items'), '{"items":{"array":[{"a":1}]}}')).toEqual([{ a: 1 }])
  expect(run(flatten('o.items'), '{"o":{"n":1,"items":[{"a":1}]}}')).toEqual([{ o: { n: 1 }, a: 1 }])
})

test('[D16] a later step changes one output without changing the others', () => {
  const chain = chainOf(
    flatten('items'),
    step('router', { routes: [route('a == 1', 'ones')] }),
    step('mask', { fields: ['shared.deep'] }, { when: 'a == 2' }),
  )
  const metadata = { topic: 't' }
  const records = recordsOf(runChain(chain, '{"shared":{"deep":"x"},"items":[{"a":1},{"a":2}]}', { metadata }))
  expect(records.map((record) => record.metadata)).toEqual([{ topic: 't', routed_condition: 'a == 1' }, { topic: 't' }])
  expect(records.map(({ json }) => json)).toEqual([
    { shared: { deep: 'x' }, a: 1 },
    { shared: { deep: '***' }, a: 2 },
  ])
  expect(metadata).toEqual({ topic: 't' })
})

test('flatten handles nested arrays, scalar parents and non-object roots', () => {
  expect(run(flatten('l'), '{"l":[[1],[2,3]]}')).toEqual([{ l: [1] }, { l: [2, 3] }])
  expect(run(flatten('o.l'), '{"o":{"n":1,"l":[1,2]}}')).toEqual([{ o: { n: 1, l: 1 } }, { o: { n: 1, l: 2 } }])
  expect(run(flatten('a.0.l'), '{"a":[{"l":[1]}]}')).toEqual([{ a: [{ l: 1 }] }])
  expect(runText(flatten('items'), '[{"items":[1]}]')).toBe('[{"items":[1]}]')
})

test('more records per message than the limit are an error', () => {
  const many = JSON.stringify({ l: Array.from({ length: 10_001 }, () => 1) })
  expect(failure(flatten('l'), many)).toBe('flatten: $: more than 10000 records from one message')
  expect(run([flatten('l'), step('filter', { condition: 'l == 2' })], many)).toEqual([])
  expect(failure(flatten('l'), JSON.stringify({ l: Array.from({ length: 100_001 }, () => 1) }))).toBe(
    'flatten: l: the array has too many elements',
  )
  const wide = JSON.stringify({ text: 'x'.repeat(100_000), l: Array.from({ length: 1000 }, () => 1) })
  expect(failure(flatten('l'), wide)).toBe('flatten: l: the array has too many elements')
})

test('flattened outputs reconstruct the input', () => {
  const element = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.integer(), { minKeys: 1 })
  fc.assert(
    fc.property(fc.array(element, { minLength: 1, maxLength: 5 }), fc.integer(), (items, id) => {
      const records = run(flatten('items'), { json: { id, items } as Json }) as Record<string, unknown>[]
      const again = records.map(({ id: parent, ...rest }) => {
        expect(parent).toBe(id)
        return rest
      })
      expect(again).toEqual(items)
    }),
  )
})
