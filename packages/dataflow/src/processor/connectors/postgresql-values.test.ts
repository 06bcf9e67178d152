import fc from 'fast-check'
import { expect, test } from 'vitest'
import { copyRow } from './postgresql-columns.ts'
import { copyValues, jsonColumn, rowJson, valueJson } from './postgresql-values.ts'
import { textArray } from './text-array.ts'

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

test('a value that is not known is left out, NULL is null', () => {
  expect(rowJson([jsonColumn('a', 23, 0), jsonColumn('b"', 25, 1), jsonColumn('c', 25, 2)], ['1', null, undefined])).toBe(
    '{"a":1,"b\\"":null}',
  )
})

const texts = fc.array(
  fc.option(
    fc.string({ unit: 'binary' }).filter((value) => !value.includes('\0')),
    { nil: null },
  ),
  { minLength: 1, maxLength: 8 },
)

test("what COPY takes and what it gives are one another's inverse", () => {
  fc.assert(
    fc.property(texts, (values) => {
      expect(copyValues(copyRow(values).slice(0, -1))).toEqual(values)
    }),
  )
})

test("an array of texts in the server's binary form holds each of them, whatever is in it", () => {
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
