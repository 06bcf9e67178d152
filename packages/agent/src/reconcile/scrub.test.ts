import { expect, test } from 'vitest'
import { scrub } from './scrub.ts'

const secret = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 's' },
  data: { a: Buffer.from('canary-one').toString('base64') },
  stringData: { b: 'canary-two', c: 12345678, d: 'abc' },
}
const config = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' }, data: { x: 'public' } }

test.each([
  ['plain', 'denied: canary-two is weak', 'denied: *** is weak'],
  ['decoded', 'got canary-one', 'got ***'],
  ['encoded', `got ${Buffer.from('canary-two').toString('base64')}`, 'got ***'],
  ['a number', 'expected string, got 12345678', 'expected string, got ***'],
  ['of other kinds', 'public abc', 'public abc'],
])('values of Secrets do not leave in a message: %s', (_what, text, expected) => {
  expect(scrub(text, [secret, config])).toBe(expected)
})

test.each([
  ['a text where a map belongs', 'canary-odd', '.data: expected map, got &{canary-odd}', '.data: expected map, got &{***}'],
  ['a map where a text belongs', { a: { b: ['canary-odd'] } }, 'got &{map[b:[canary-odd]]}', 'got &{map[b:[***]]}'],
])('what stands in the wrong shape is a value too: %s', (_what, data, text, expected) => {
  for (const field of ['data', 'stringData'])
    expect(scrub(text, [{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 's' }, [field]: data }])).toBe(expected)
})
