import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeJson, encodeJson } from '../client/json.ts'
import { ListDecoder, ListTooLarge } from './list-decoder.ts'

const listOf = (items: unknown[], more: object = {}) => ({
  kind: 'XList',
  apiVersion: 'v1',
  metadata: { resourceVersion: '7', ...more },
  items,
})

/** Pushes the text in pieces of these sizes, the last one again and again. */
function decode(text: string, sizes: readonly number[], bytesMax = 64 * 1024 * 1024) {
  const decoder = new ListDecoder(bytesMax)
  const bytes = Buffer.from(text)
  const items: unknown[] = []
  let calls = 0
  for (let at = 0, n = 0; at < bytes.length; n++) {
    const size = Math.max(1, sizes[Math.min(n, sizes.length - 1)] ?? bytes.length)
    const some = decoder.push(bytes.subarray(at, at + size))
    calls += some.length > 0 ? 1 : 0
    items.push(...some)
    at += size
  }
  const { items: rest, ...told } = decoder.end()
  return { items: [...items, ...rest], ...told, calls }
}

const named = (more: object) => (n: number) => ({ metadata: { name: `n${n}`, text: 'ä€🦀'.repeat(40) }, ...more })
const many = (make: (n: number) => object) => Array.from({ length: 3000 }, (_, n) => make(n))

test.each([
  ['plain', many(named({ data: { x: '},{"metadata":{' } }))],
  ['with their kind', many((n) => ({ apiVersion: 'g/v1', kind: 'Widget', ...named({})(n) }))],
])('objects %s are decoded while the rest arrives, each exactly once', (_name, items) => {
  const { calls, ...list } = decode(JSON.stringify(listOf(items, { continue: 'abc' })), [4096])
  expect(list).toEqual({ items, resourceVersion: '7', next: 'abc' })
  expect(calls).toBeGreaterThan(3)
})

test.each([
  [
    'objects that hold objects of the same form',
    listOf(many((n) => ({ metadata: { n }, spec: { t: [{ metadata: { a: 'x'.repeat(60) } }, { metadata: {} }] } }))),
  ],
  ['metadata behind the items', { items: many(named({})), metadata: { resourceVersion: '7' } }],
  ['items that begin otherwise', listOf(many((n) => ({ n, metadata: { name: 'x'.repeat(60) } })))],
  ['no items', listOf([])],
  ['no list of items', { metadata: { resourceVersion: '7' }, items: null }],
])('%s is decoded correctly', (_name, list) => {
  expect(decode(JSON.stringify(list), [1000])).toMatchObject({ items: list.items ?? [], resourceVersion: '7', next: undefined })
  expect(decode(JSON.stringify(list, null, 2), [1000])).toMatchObject({ items: list.items ?? [], resourceVersion: '7' })
})

test('a list is the same for any content and any split of the bytes', () => {
  const item = fc.record({ metadata: fc.dictionary(fc.string(), fc.jsonValue()), spec: fc.jsonValue() })
  fc.assert(
    fc.property(fc.array(item), fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1 }), (items, sizes) => {
      // Large enough to be cut several times.
      const text = JSON.stringify(listOf([...items, ...items, ...items].map((one) => ({ ...one, filler: 'x'.repeat(20_000) }))))
      expect(encodeJson(decode(text, sizes).items)).toBe(encodeJson((decodeJson(text) as { items: unknown }).items))
    }),
    { numRuns: 20 },
  )
})

test('large objects in small packets are not searched repeatedly', () => {
  const items = Array.from({ length: 3 }, (_, n) => ({ metadata: { name: `n${n}` }, data: { text: 'x'.repeat(6_000_000) } }))
  const startedMs = process.cpuUsage().user
  expect(decode(JSON.stringify(listOf(items)), [4096]).items).toHaveLength(3)
  // Some 20 ms; for every packet it would be minutes.
  expect(process.cpuUsage().user - startedMs).toBeLessThan(5_000_000)
})

test('integers of 64 bits keep every digit', () => {
  const text = JSON.stringify(listOf(many(named({ big: 1 })))).replaceAll('"big":1', '"big":9223372036854775807')
  expect(decode(text, [4096]).items).toContainEqual({ ...named({})(2000), big: 9223372036854775807n })
})

test.each(['<html>', '{"kind":"Status"}', '[]', '{"metadata":{},"items":5}', JSON.stringify(listOf(many(named({})))).slice(0, -3)])(
  'an invalid or truncated list is an error: %#',
  (text) => {
    expect(() => decode(text, [4096])).toThrow(SyntaxError)
  },
)

test('pending text is bounded, the list is not', () => {
  const text = JSON.stringify(listOf(many(named({}))))
  expect(decode(text, [4096], 300_000).items).toHaveLength(3000)
  expect(() => decode(text.replace('"items"', '"other"'), [4096], 300_000)).toThrow(ListTooLarge)
})
