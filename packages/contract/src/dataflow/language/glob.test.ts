import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compileGlob } from './glob.ts'

test.each<[string, string, boolean]>([
  ['a*', 'abc', true],
  ['a*', 'ba', false],
  ['*', '', true],
  ['?', '', false],
  ['?', '😀', true],
  ['*b?d*', 'abcde', true],
  ['a\\*', 'a*', true],
  ['a\\*', 'ab', false],
  ['a\\', 'a\\', true],
  ['**a**', 'bab', true],
  ['', '', true],
  ['', 'a', false],
])('%s on "%s": %s', (pattern, text, expected) => {
  expect(compileGlob(pattern)(text)).toBe(expected)
})

test('it agrees with a regular expression', () => {
  const parts = fc.array(fc.constantFrom('*', '?', 'a', 'b'), { maxLength: 6 })
  fc.assert(
    fc.property(parts, fc.array(fc.constantFrom('a', 'b'), { maxLength: 8 }), (pattern, text) => {
      const expected = new RegExp(`^${pattern.map((part) => part.replace('*', '.*').replace('?', '.')).join('')}$`).test(text.join(''))
      expect(compileGlob(pattern.join(''))(text.join(''))).toBe(expected)
    }),
    { numRuns: 1000 },
  )
})

test('a hostile pattern on a long text does not stall', () => {
  const before = performance.now()
  expect(compileGlob(`${'*a'.repeat(63)}b`)('a'.repeat(100 * 1024))).toBe(false)
  expect(performance.now() - before).toBeLessThan(10_000)
})
