import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeJson, encodeJson } from './json.ts'

test.each([
  ['9007199254740993', 9007199254740993n],
  ['-9223372036854775808', -9223372036854775808n],
  ['18446744073709551615', 18446744073709551615n],
  ['{"a":[9223372036854775807]}', { a: [9223372036854775807n] }],
])('%s keeps every digit in both directions', (text, value) => {
  expect(decodeJson(text)).toEqual(value)
  expect(encodeJson(value)).toBe(text)
})

test.each([
  ' 9223372036854775807',
  '[9223372036854775807]',
  '[0,-9223372036854775807]',
  '[0, 9223372036854775807]',
  '{"a":9223372036854775807}',
  '{"a":\n\t-9223372036854775807}',
])('%j keeps every digit', (text) => {
  expect(encodeJson(decodeJson(text))).toBe(text.replace(/\s/g, ''))
})

test.each([
  ['9007199254740991', 9007199254740991],
  ['1234567890123456.5', 1234567890123456.5],
  ['"1234567890123456789"', '1234567890123456789'],
  ['1e30', 1e30],
])('%s is parsed as by JSON.parse', (text, value) => {
  expect(decodeJson(text)).toEqual(value)
})

test('any JSON value is the same after decoding and encoding', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(encodeJson(decodeJson(encodeJson(value)))).toBe(JSON.stringify(value))
    }),
  )
})

test('any 64-bit integer is the same after encoding and decoding', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n }), (value) => {
      expect(encodeJson(decodeJson(encodeJson(value)))).toBe(value.toString())
    }),
  )
})
