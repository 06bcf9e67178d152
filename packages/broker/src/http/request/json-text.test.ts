import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseJson } from './json-text.ts'

const codeOf = (text: string): string => {
  try {
    parseJson(text)
    return 'ok'
  } catch (error) {
    return (error as { code?: string }).code ?? String(error)
  }
}
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

const cases: [text: string, expected: string][] = [
  ['"env:prod"', 'ok'],
  ['5', 'ok'],
  ['null', 'ok'],
  [' \n{"a":[1,2,{"b":null}]}\t', 'ok'],
  ['{"a":{"x":1},"b":{"x":1}}', 'ok'],
  ['[{"x":1},{"x":1}]', 'ok'],
  ['{"a":"b,\\"a\\":"}', 'ok'],
  [nested(64), 'ok'],
  ['', 'invalid_json'],
  ['{', 'invalid_json'],
  ['{"a":1', 'invalid_json'],
  ['"abc', 'invalid_json'],
  ['{"a"', 'invalid_json'],
  ["{'a':1}", 'invalid_json'],
  ['{"a":1,}', 'invalid_json'],
  ['01', 'invalid_json'],
  ['NaN', 'invalid_json'],
  ['{"a":1}{', 'invalid_json'],
  ['"\\u12"', 'invalid_json'],
  ['{"a\\x":1}', 'invalid_json'],
  [nested(65), 'invalid_json'],
  ['['.repeat(1_000_000), 'invalid_json'],
  [`[${'0,'.repeat(199_998)}0]`, 'ok'],
  [`[${'0,'.repeat(199_999)}0]`, 'invalid_json'],
  ['{"__proto__":1}', 'invalid_json'],
  ['{"a":[[[{"constructor":1}]]]}', 'invalid_json'],
  ['{"prototype":{}}', 'invalid_json'],
  ['{"__proto\\u005f_":1}', 'invalid_json'],
  ['{"\\u005f_proto__":1}', 'invalid_json'],
  ['{"a":"__proto__"}', 'ok'],
  ['{"a":1,"a":2}', 'invalid_request_body'],
  ['{"a":1,"b":{"c":[],"d":1,"c":2}}', 'invalid_request_body'],
  ['{"a":1,"\\u0061":2}', 'invalid_request_body'],
  ['{"a":{"a":1},"a":2}', 'invalid_request_body'],
  ['{"a":1,"a":2', 'invalid_json'],
  ['"a\\u0000b"', 'validation_failed'],
  ['{"a":["\\ud800"]}', 'validation_failed'],
  ['{"a\\u0000":1}', 'validation_failed'],
  ['"\\ud83d\\ude00"', 'ok'],
]
test.each(cases.map(([text, expected]) => [text.slice(0, 40), text.length, expected, text] as const))(
  '%j of length %i: %s',
  (_, __, expected, text) => {
    expect(codeOf(text)).toBe(expected)
  },
)

test('a text that cannot be stored is named by its path', () => {
  expect(() => parseJson('{"stacks":[{"rev":1},{"message":"\\u0000"}]}')).toThrow(
    expect.objectContaining({ details: { errors: [{ path: 'stacks[1].message', message: expect.any(String) }] } }),
  )
})

test('values that JSON.stringify writes are read unchanged', () => {
  const json = fc
    .jsonValue({ maxDepth: 6, stringUnit: 'grapheme' })
    .filter((value) => !/"(__proto__|constructor|prototype)":/.test(JSON.stringify(value)))
  fc.assert(
    fc.property(json, (value) => {
      expect(JSON.stringify(parseJson(JSON.stringify(value)))).toBe(JSON.stringify(value))
    }),
  )
})

test('a repeated key is detected at any depth', () => {
  const key = fc.string({ unit: 'grapheme', maxLength: 8 })
  const keys = fc.uniqueArray(key, { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(keys, fc.nat(), fc.nat(), fc.jsonValue({ maxDepth: 2, stringUnit: 'grapheme' }), (names, from, to, value) => {
      fc.pre(!/"(__proto__|constructor|prototype)"/.test(JSON.stringify([names, value])))
      const fields = names.map((name) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)
      const twice = fields.toSpliced(to % (fields.length + 1), 0, `${JSON.stringify(names[from % names.length])}:0`)
      expect([codeOf(`{${fields.join(',')}}`), codeOf(`{${twice.join(',')}}`)]).toEqual(['ok', 'invalid_request_body'])
    }),
  )
})

test('a hostile body of the largest size is refused without a stall', () => {
  const started = performance.now()
  for (const text of [`{${'"a":'.repeat(2_000_000)}`, '"\\'.repeat(4_000_000), '{"'.repeat(4_000_000), ','.repeat(8_000_000)])
    expect(codeOf(text)).toBe('invalid_json')
  expect(performance.now() - started).toBeLessThan(10_000)
})

test('no prototype is touched', () => {
  codeOf('{"__proto__":{"polluted":1}}')
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})
