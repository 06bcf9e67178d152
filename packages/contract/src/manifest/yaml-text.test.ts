import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type JsonObject, jsonText, parseManifest } from './manifest.ts'
import { yamlText } from './yaml-text.ts'

test('a value is printed as people write YAML', () => {
  const object = {
    apiVersion: 'v1',
    kind: 'List',
    on: 'yes',
    a: { empty: {}, none: [], num: 1, t: true },
    list: [{ x: 'a b', why: [1, 'two'] }, []],
  }
  expect(yamlText(object)).toBe(
    [
      'apiVersion: v1',
      'kind: List',
      '"on": "yes"',
      'a:',
      '  empty: {}',
      '  none: []',
      '  num: 1',
      '  t: true',
      'list:',
      '  - x: "a b"',
      '    why:',
      '      - 1',
      '      - two',
      '  - []',
      '',
    ].join('\n'),
  )
})

test('a printed value is parsed to the same value', () => {
  const value = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.string(),
      fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.constantFrom('yes', 'NO', '0644', '1_000', '~', '- a', '# b', ' x ', 'a: b', '\u2028', '2026-01-01', '0o17'),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.string(), tie('value'), { maxKeys: 4 }),
    ),
  })).value
  fc.assert(
    fc.property(value, (inner) => {
      const object = { apiVersion: 'v1', kind: 'Thing', inner } as JsonObject
      const read = parseManifest(yamlText(object))
      expect(read.map((one) => JSON.parse(jsonText(one.object)) as unknown)).toEqual([JSON.parse(jsonText(object))])
    }),
    { numRuns: 300 },
  )
})
