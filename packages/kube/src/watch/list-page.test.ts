import fc from 'fast-check'
import { expect, test } from 'vitest'
import { nextLimit, PAGE_SIZE, readContinueToken, smallerLimit } from './list-page.ts'

const meta = (more: object) => ({ resourceVersion: '7', ...more })

test.each([
  ['from the head', { metadata: meta({ continue: 'abc', remainingItemCount: 3 }), items: [{ metadata: { continue: 'no' } }] }, 'abc'],
  ['indented as well', { metadata: meta({ continue: 'abc' }), items: [{}] }, 'abc', 2],
  ['none at the end of the list', { metadata: meta({ continue: '' }), items: [{}] }, undefined],
  ['none where nothing is said', { metadata: meta({}), items: [{ metadata: { continue: 'no' } }] }, undefined],
  ['behind the items', { items: [{ metadata: { continue: 'no' } }], metadata: meta({ continue: 'abc' }) }, 'abc'],
  ['beside other items', { items2: { x: { items: [] } }, metadata: meta({ continue: 'abc' }), items: [] }, 'abc'],
  ['no items at all', { metadata: meta({ continue: 'abc' }) }, 'abc'],
])('the continue token is read: %s', (_name, list, expected, indent = 0) => {
  expect(readContinueToken(JSON.stringify(list, null, indent))).toBe(expected)
})

test.each(['', '<html>', '{"metadata":{"continue":"a"', '{"items":[', '[]', 'null'])('%j has no continue token', (text) => {
  expect(readContinueToken(text)).toBeUndefined()
})

test('the continue token from the head equals that of the whole list', () => {
  fc.assert(
    fc.property(fc.string(), fc.array(fc.jsonValue()), (next, items) => {
      expect(readContinueToken(JSON.stringify({ metadata: meta({ continue: next }), items }))).toBe(next || undefined)
    }),
  )
})

test('pages grow for small objects and shrink for large ones', () => {
  expect(nextLimit(PAGE_SIZE, 274_000)).toBe(1824)
  expect(nextLimit(PAGE_SIZE, 0)).toBe(2500)
  expect(nextLimit(2500, 50_000_000)).toBe(PAGE_SIZE)
  expect(nextLimit(PAGE_SIZE, 5_000_000)).toBe(PAGE_SIZE)
  expect(nextLimit(3, 60_000_000)).toBe(3)
})

test('a page that was too large is requested with the default size, then in halves', () => {
  expect([10_000, 501, 500, 3, 2].map(smallerLimit)).toEqual([500, 500, 250, 2, 1])
})
