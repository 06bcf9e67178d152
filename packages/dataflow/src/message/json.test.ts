import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { depthMax, isTooDeep, parsePayload } from './json.ts'

const parse = (text: string | Uint8Array) => parsePayload(typeof text === 'string' ? Buffer.from(text) : text)
const again = (text: string): string => {
  const json = parse(text)
  if (json === undefined) throw new Error(`no JSON: ${text}`)
  return JSON.stringify(json)
}

describe('numbers survive', () => {
  test.each([
    '9007199254740993',
    '-9223372036854775808',
    '18446744073709551615',
    '0.12345678901234567890',
    '123456789012345678901234567890.5',
    '1e400',
    '-1E-400',
    '1.0000000000000000',
    '12345678901234567e5',
  ])('%s', (digits) => {
    for (const text of [digits, `[${digits}]`, `{"a":{"b":${digits}}}`, `{"text":"some words before","n":${digits}}`])
      expect(again(text)).toBe(text)
    expect(again(`{"n": ${digits} }`)).toBe(`{"n":${digits}}`)
  })

  test('at every place of the payload', () => {
    for (let pad = 0; pad < 40; pad += 1) {
      const text = `{"k":"${'x'.repeat(pad)}","n":9007199254740993}`
      expect(again(text)).toBe(text)
    }
  })

  test('short ones, and digits within texts, are plain numbers and texts', () => {
    expect(parse('{"a":1.50,"b":"4111111111111111","c":1e3,"d":-0.0}')).toEqual({ a: 1.5, b: '4111111111111111', c: 1000, d: -0 })
  })

  test('every double reads as itself', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), (double, big) => {
        expect(again(`[${big}]`)).toBe(`[${big}]`)
        const text = again(JSON.stringify([double]))
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify([double])))
      }),
      { numRuns: 500 },
    )
  })
})

test.each<[string, string | Uint8Array]>([
  ['cut off', '{"a":"x'],
  ['NaN', '{"a":NaN}'],
  ['a comma too many', '[1,]'],
  ['two values', '{} {}'],
  ['bytes that are no UTF-8', Uint8Array.of(0x22, 0x80, 0xff, 0x22)],
  ['half a character', Buffer.from('"é"').subarray(0, 2)],
  ['a byte order mark', Buffer.from('\ufeff{}')],
  ['nothing', ''],
])('no JSON: %s', (_what, payload) => {
  expect(parse(payload)).toBeUndefined()
})

test('a replacement character that was written as one is text', () => {
  expect(parse('"\ufffd"')).toBe('\ufffd')
})

test('a plain byte array, also one within a larger buffer, is read as well', () => {
  const bytes = new Uint8Array([120, ...Buffer.from('{"a":1}'), 120])
  expect(parse(bytes.subarray(1, -1))).toEqual({ a: 1 })
})

test('of a repeated key the last value counts, and __proto__ is a key', () => {
  expect(again('{"a":1,"a":2}')).toBe('{"a":2}')
  const parsed = parse('{"__proto__":{"polluted":1}}')
  expect(Object.keys(parsed as object)).toEqual(['__proto__'])
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})

describe('depth', () => {
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
  test('nesting up to the limit parses; deeper nesting is detected', () => {
    expect(parse(nested(depthMax))).toBeDefined()
    for (const text of [nested(depthMax + 1), '['.repeat(10 << 20), `{"a":${'{"a":'.repeat(depthMax)}1`]) {
      expect(parse(text)).toBeUndefined()
      expect(isTooDeep(Buffer.from(text))).toBe(true)
    }
  })
  test('brackets within texts are no depth', () => {
    expect(parse(JSON.stringify({ a: '[{'.repeat(5000), b: '\\"[[', c: `\\${'['.repeat(3000)}` }))).toBeDefined()
    expect(parse(JSON.stringify(`${'\\'.repeat(4001)}"${'['.repeat(3000)}`))).toBeDefined()
  })
})
