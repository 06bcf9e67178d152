import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hostileJson, segments } from '../test-parts/language.ts'
import type { Json } from './json.ts'
import { parsePath } from './path.ts'
import { printPath } from './path-print.ts'
import { pathFault } from './path-use.ts'
import { compileRead } from './read-path.ts'

function read(path: string, payload: Json): Json | undefined {
  const parsed = parsePath(path)
  if (!parsed.ok) throw new Error(`${path}: column ${parsed.column}: ${parsed.reason}`)
  return compileRead(parsed.value.segments)(payload)
}
const parse = (text: string): Json => JSON.parse(text) as Json

test('[D8] every form of a path reads its values', () => {
  const payload = parse('{"a":[{"b":1,"p":5,"id":"q"},{"b":2,"p":20,"id":"r"}],"x.y":3,"k1":7}')
  expect(read('a.0.b', payload)).toBe(1)
  expect(read('a[1].b', payload)).toBe(2)
  expect(read('a.#', payload)).toBe(2)
  expect(read('a.#.b', payload)).toEqual([1, 2])
  expect(read('$.a[*].b', payload)).toEqual([1, 2])
  expect(read('a.#(p>10).id', payload)).toBe('r')
  expect(read('a.#(p>1)#.id', payload)).toEqual(['q', 'r'])
  expect(read('x\\.y', payload)).toBe(3)
  expect(read("$['x.y']", payload)).toBe(3)
  expect(read('k?', payload)).toBe(7)
})

test.each<[string, string, Json | undefined]>([
  ['$', '5', 5],
  ['a', '{"a":null}', null],
  ['a.b', '{"a":"text"}', undefined],
  ['0', '{"0":"key"}', 'key'],
  ['0', '["element"]', 'element'],
  ["$['0']", '["element"]', undefined],
  ['#.a', '[{"a":1},{},{"a":null}]', [1, null]],
  ['a.#.b.#.c', '{"a":[{"b":[{"c":1},{"c":2}]},{"b":[]}]}', [[1, 2], []]],
  ['a.#.b.#', '{"a":[{"b":[1,2]},{"b":[]},{"b":3}]}', [2, 0]],
  ['a.#', '{"a":{}}', undefined],
  ['l.#(>2)#', '{"l":[1,2,3,4]}', [3, 4]],
  ['l.#(%"a*")#', '{"l":["ab","b","aa"]}', ['ab', 'aa']],
  ["l.#( n == 'a b' ).v", '{"l":[{"n":"a b","v":1}]}', 1],
  ['l.#(n==yes).v', '{"l":[{"n":"no","v":1},{"n":"yes","v":2}]}', 2],
  ['l.#(k.#(x==1)#!="[]").v', '{"l":[{"k":[{"x":2}],"v":1},{"k":[{"x":1}],"v":2}]}', 2],
  ['u*.n', '{"a":1,"user":{"n":1},"uber":{"n":2}}', 1],
  ['\\*', '{"a":1,"*":2}', 2],
  ['a:b', '{"a:b":1}', 1],
  ['a b', '{"a b":1}', 1],
  ['$ref', '{"$ref":"x"}', 'x'],
  ["$['it\\'s \\u0041\\n']", '{"it\'s A\\n":1}', 1],
  ['length', '[1,2]', undefined],
  ['a.length', '{"a":"text"}', undefined],
  ['constructor', '{}', undefined],
  ['constructor', '{"constructor":1}', 1],
  ['__proto__.a', '{}', undefined],
  ['__proto__.a', '{"__proto__":{"a":1}}', 1],
])('%s in %s', (path, payload, expected) => {
  expect(read(path, parse(payload))).toEqual(expected)
})

test.each<[string, number, string]>([
  ['$..x', 3, '$.. is not supported'],
  ['a|b', 2, 'pipes'],
  ['@reverse', 1, '@modifiers'],
  ['a.@this', 3, '@modifiers'],
  ['a..b', 3, 'expected a key'],
  ['a.', 3, 'expected a key'],
  ['.a', 1, 'expected a key'],
  ['{a,b}', 1, 'multipaths'],
  ['[0]', 1, 'multipaths'],
  ['a.[b]', 3, 'multipaths'],
  ['a[?(@.x==1)]', 3, 'an index, * or a key in quotes'],
  ['a[(@.length-1)]', 3, 'an index'],
  ['a[0:2]', 4, '"]"'],
  ['a[-1]', 3, 'an index'],
  ["a['x", 3, "a closing '"],
  ["a['\\x']", 4, 'expected one of'],
  ["a['\\u12']", 6, 'hexadecimal'],
  ['a#b', 2, 'escaped'],
  ['a(b)', 2, 'escaped'],
  ['a]', 2, 'escaped'],
  ['a\\n', 3, 'needs an escape'],
  ['a\\', 3, 'needs an escape'],
  ['#x', 2, 'expected the end'],
  ['#(a)', 4, 'expected one of =='],
  ['#(a==)', 6, 'expected a value'],
  ['#(a==1', 7, '")"'],
  ['😀|', 2, 'pipes'],
])('refused: %s', (path, column, reason) => {
  const parsed = parsePath(path)
  expect(parsed).toMatchObject({ ok: false, column })
  expect(!parsed.ok && parsed.reason).toContain(reason)
})

test.each<[string, string, number, string]>([
  ['length', 'a'.repeat(4097), 4097, 'at most 4096 bytes'],
  ['bytes', 'é'.repeat(3000), 3001, 'at most 4096 bytes'],
  ['wide segments', `a${'.#'.repeat(33)}.b`, 70, 'at most 32'],
  ['wildcard', `*${'a'.repeat(200)}`, 1, 'at most 128'],
  ['match', `#(a%"${'*'.repeat(200)}")`, 5, 'at most 128'],
  ['nesting', `${'#('.repeat(33)}a==1${')'.repeat(33)}`, 65, '32 levels'],
])('bounded: %s', (_what, path, column, reason) => {
  const parsed = parsePath(path)
  expect(parsed).toMatchObject({ ok: false, column })
  expect(!parsed.ok && parsed.reason).toContain(reason)
})

test.each([
  ['$', 'edit', 'V12'],
  ['a.#', 'edit', 'V12'],
  ['a[*]', 'set', 'V12'],
  ['a.#.b', 'set', 'V12'],
  ['a.*', 'set', 'V12'],
  ['a.#.b', 'place', 'V18'],
  ['a.#(x==1)', 'place', 'V18'],
  ['a*', 'part', 'V18'],
  ['$', 'part', 'V12'],
  ['$', 'named', 'V12'],
  ['#.#', 'named', 'V12'],
  ['$', 'place', undefined],
  ['a.#.b', 'edit', undefined],
  ['a.0.b', 'set', undefined],
  ['#.a', 'named', undefined],
] as const)('the path %s used to %s: %s', (text, use, rule) => {
  const parsed = parsePath(text)
  expect(parsed.ok && pathFault(parsed.value, use)?.rule).toBe(rule)
})

describe('properties', () => {
  test('a printed path parses to the same path', () => {
    fc.assert(
      fc.property(segments, (path) => {
        const text = printPath(path)
        expect(parsePath(text)).toEqual({ ok: true, value: { text, segments: path } })
      }),
      { numRuns: 2000 },
    )
  })

  test('every text parses or is rejected with a column within it', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'ab.#()[]*?\\$@|\'" =<>!%0'.split('')), maxLength: 20 }), (text) => {
        const parsed = parsePath(text)
        expect(parsed.ok || (parsed.column >= 1 && parsed.column <= text.length + 1)).toBe(true)
      }),
      { numRuns: 3000 },
    )
  })

  test('reading never throws and never leaves the payload', () => {
    fc.assert(
      fc.property(segments, hostileJson, (path, payload) => {
        const before = JSON.stringify(payload)
        const value = compileRead(path)(payload)
        expect(typeof value).not.toBe('function')
        expect(JSON.stringify(payload)).toBe(before)
      }),
      { numRuns: 2000 },
    )
  })
})
