import fc from 'fast-check'
import { expect, test } from 'vitest'
import { copyRow } from './columns.ts'
import { textArray } from './text-array.ts'
import { copyValues, jsonColumn, rowJson, valueJson } from './values.ts'

test.each([
  [23, '5', '5'],
  [1700, '12345678901234567890.123456789', '12345678901234567890.123456789'],
  [701, '1e+20', '1e+20'],
  [701, 'NaN', '"NaN"'],
  [1700, 'Infinity', '"Infinity"'],
  [16, 't', 'true'],
  [16, 'f', 'false'],
  [3802, '{"a": [1]}', '{"a": [1]}'],
  [25, 'a"b', '"a\\"b"'],
  [1184, '2026-01-02 03:04:05.123456+00', '"2026-01-02T03:04:05.123456Z"'],
  [1114, '2026-01-02 03:04:05.123456', '"2026-01-02T03:04:05.123456"'],
  [1184, 'infinity', '"infinity"'],
  [1184, '0044-03-15 12:00:00+00 BC', '"0044-03-15 12:00:00+00 BC"'],
  [1082, '2026-01-02', '"2026-01-02"'],
  [1007, '{1,NULL,3}', '[1,null,3]'],
  [1007, '{{1,2},{3,4}}', '[[1,2],[3,4]]'],
  [1009, '{"a b","c\\"d",plain,"NULL",NULL}', '["a b","c\\"d","plain","NULL",null]'],
  [1009, '{}', '[]'],
  [1007, '[2:3]={1,2}', '"[2:3]={1,2}"'],
  [3807, '{"{\\"a\\": 1}"}', '[{"a": 1}]'],
  [17, '\\x00ff', '"\\\\x00ff"'],
])('type %i %s is %s', (type, text, json) => {
  expect(valueJson(type, text)).toBe(json)
})

test('rowJson omits undefined values and writes NULL as null', () => {
  expect(rowJson([jsonColumn('a', 23, 0), jsonColumn('b"', 25, 1), jsonColumn('c', 25, 2)], ['1', null, undefined])).toBe(
    '{"a":1,"b\\"":null}',
  )
})

/** Any code points except NUL and surrogates. `fc.string({ unit: 'binary' })` takes 1.7 s of CPU to set up. */
const anyText = fc
  .array(fc.integer({ min: 1, max: 0x10_ffff }).filter((code) => code < 0xd800 || code > 0xdfff))
  .map((codes) => String.fromCodePoint(...codes))
const texts = fc.array(fc.option(anyText, { nil: null }), { minLength: 1, maxLength: 8 })

test('copyRow and copyValues are inverse', () => {
  fc.assert(
    fc.property(texts, (values) => {
      expect(copyValues(copyRow(values).slice(0, -1))).toEqual(values)
    }),
  )
})

test('textArray encodes any texts in the binary format', () => {
  const read = (array: Buffer): (string | null)[] => {
    const [dimensions, hasNull, type, count, from] = [0, 4, 8, 12, 16].map((at) => array.readInt32BE(at))
    const values: (string | null)[] = []
    let at = 20
    for (let item = 0; item < count!; item += 1) {
      const bytes = array.readInt32BE(at)
      at += 4
      values.push(bytes < 0 ? null : array.toString('utf8', at, at + bytes))
      at += Math.max(0, bytes)
    }
    expect([dimensions, type, from, at]).toEqual([1, 25, 1, array.length])
    expect(hasNull === 1).toBe(values.includes(null))
    return values
  }
  // Half of a surrogate pair is no character: the server would refuse its bytes.
  const wellFormed = (values: readonly (string | null)[]) => values.map((value) => value?.toWellFormed() ?? null)
  fc.assert(
    fc.property(texts, (values) => {
      expect(read(textArray(values))).toEqual(wellFormed(values))
    }),
  )
  const large = ['\u{10000}'.repeat(200_000), null, 'x'.repeat(3_000_000), '']
  expect(read(textArray(large))).toEqual(large)
})
