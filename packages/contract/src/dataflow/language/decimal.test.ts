import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compareDecimals, isNumericText, numberText, plainDecimal } from './decimal.ts'
import { rawNumber } from './json.ts'

test.each<[string, string]>([
  ['5.0', '5'],
  ['1e3', '1000'],
  ['-1.50', '-1.5'],
  ['0.000', '0'],
  ['-0', '0'],
  ['007', '7'],
  ['+7', '7'],
  ['12e-1', '1.2'],
  ['1e-7', '0.0000001'],
  ['9007199254740993', '9007199254740993'],
  ['0.12345678901234567890', '0.1234567890123456789'],
  ['1e5000', '1e5000'],
])('%s is %s', (text, plain) => {
  expect(plainDecimal(text)).toBe(plain)
})

test('numbers print in full', () => {
  expect(numberText(1e21)).toBe('1000000000000000000000')
  expect(numberText(1.5e-7)).toBe('0.00000015')
  expect(numberText(-0)).toBe('0')
  expect(numberText(rawNumber('1.0000000000000000'))).toBe('1')
})

test.each(['', ' 1', '1 ', '1.', '.5', '0x1', 'Infinity', 'NaN', '1e', '--1', '1,5'])('"%s" is no number', (text) => {
  expect(isNumericText(text)).toBe(false)
})

const decimal = fc.stringMatching(/^-?[0-9]{1,25}(\.[0-9]{1,25})?(e[+-]?[0-9]{1,2})?$/)

test('order is that of the values, exactly', () => {
  // Scaled to integers: 25 decimals and an exponent of at most -99.
  const exact = (text: string): bigint => {
    const [mantissa = '', exponent = '0'] = text.split('e')
    const [whole = '', decimals = ''] = mantissa.split('.')
    return BigInt(whole + decimals.padEnd(25, '0')) * 10n ** BigInt(99 + Number(exponent))
  }
  fc.assert(
    fc.property(decimal, decimal, (a, b) => {
      const [x, y] = [exact(a), exact(b)]
      expect(Math.sign(compareDecimals(a, b))).toBe(x < y ? -1 : x > y ? 1 : 0)
      expect(plainDecimal(a) === plainDecimal(b)).toBe(x === y)
    }),
    { numRuns: 2000 },
  )
})
