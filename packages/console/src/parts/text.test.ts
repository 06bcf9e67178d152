import { expect, test } from 'vitest'
import { formatSpan } from './age.tsx'
import { plainText } from './text.tsx'

test.each([
  ['plain', 'plain'],
  ['<b>tag</b>', '<b>tag</b>'],
  ['\u001b[31mred\u001b[0m', 'red'],
  ['a\u202egnp.exe', 'a\\u202egnp.exe'],
  ['zero\u200bwidth', 'zero\\u200bwidth'],
  ['line\nbreak\ttab', 'line\nbreak\ttab'],
  ['bell\u0007', 'bell\\u0007'],
])('%j is shown as %j', (text, shown) => {
  expect(plainText(text)).toBe(shown)
})

test('a long text is cut and says how much is missing', () => {
  expect(plainText('x'.repeat(1_000_000), 10)).toBe('xxxxxxxxxx … 999990 characters more')
})

test.each([
  [400, '0 s'],
  [59_000, '59 s'],
  [61_000, '1 min'],
  [3_600_000, '1 h'],
  [7_440_000, '2 h 4 min'],
  [200_000_000, '2 d'],
  [-5_000, '0 s'],
])('%d ms is %s', (ms, text) => {
  expect(formatSpan(ms)).toBe(text)
})
