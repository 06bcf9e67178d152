import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { condition, hostileJson } from '../test-parts/language.ts'
import { compileCondition } from './compile-condition.ts'
import { parseCondition } from './condition.ts'
import { printCondition } from './condition-print.ts'
import { type Json, type Metadata, rawNumber } from './json.ts'
import { re2 } from './re2.ts'

function holds(text: string, payload: Json | undefined, metadata: Metadata = {}): boolean {
  const parsed = parseCondition(text, re2)
  if (!parsed.ok) throw new Error(`${text}: column ${parsed.column}: ${parsed.reason}`)
  return compileCondition(parsed.value, re2)(payload, metadata)
}

const order: Json = { status: 'active', type: 'order', count: 5, enabled: true, empty: '' }
const origin: Metadata = { topic: 't1', partition: 3 }

test('[D4] conditions compare operands and combine comparisons', () => {
  for (const text of [
    'status',
    "$.status=='active'",
    'status == "active"',
    "status != 'deleted'",
    'metadata.topic',
    'metadata.partition == 3',
    'count == 5',
    'status && enabled',
    '!empty',
    "(status == 'x' || type == 'order') && enabled",
    "!(status == 'deleted')",
  ])
    expect([text, holds(text, order, origin)]).toEqual([text, true])
  for (const text of ['empty', 'missing', "status == 'deleted'", "missing == 'x'", "missing != 'x'", '!enabled'])
    expect([text, holds(text, order, origin)]).toEqual([text, false])
})

test('[D5] conditions support in, exists and pattern operators', () => {
  const more: Json = { ...order, n: null, big: '10', at: '2026-01-02T00:00:00Z' }
  for (const text of [
    'count >= 5',
    'big > 9',
    "status in ['new','active']",
    "status matches '^act'",
    'exists(n)',
    'n == null',
    "at < '2026-01-02T01:00:00+00:30'",
  ])
    expect([text, holds(text, more, origin)]).toEqual([text, true])
  for (const text of ['count < 5', 'exists(missing)', 'n != null', 'missing < 5'])
    expect([text, holds(text, more, origin)]).toEqual([text, false])
})

test('[D6] an invalid condition is rejected with its column', () => {
  const refusal = (text: string) => parseCondition(text, re2)
  expect(refusal('a ==')).toEqual({ ok: false, column: 5, reason: 'expected a value' })
  expect(refusal("(a == 'x'")).toEqual({ ok: false, column: 10, reason: 'expected ")"' })
  expect(refusal("a == 'x")).toEqual({ ok: false, column: 6, reason: "expected a closing '" })
  expect(refusal("(a) == 'x'")).toEqual({ ok: false, column: 5, reason: 'expected &&, || or the end' })
  expect(refusal('a && && b')).toEqual({ ok: false, column: 6, reason: 'expected a path, "!" or "("' })
})

test('[D7] metadata and a payload key named metadata are distinguished', () => {
  const payload: Json = { metadata: { x: 1 } }
  const metadata: Metadata = { headers: { trace: 't' } }
  expect(holds("metadata.headers.trace == 't'", payload, metadata)).toBe(true)
  expect(holds('$.metadata.x == 1', payload, metadata)).toBe(true)
  expect(holds('metadata.x', payload, metadata)).toBe(false)
})

test.each<[string, Json | undefined, boolean]>([
  // Truth of an operand.
  ['a', { a: 'false' }, false],
  ['a', { a: 'no' }, true],
  ['a', { a: 0 }, false],
  ['a', { a: rawNumber('0.00000000000000000') }, false],
  ['a', { a: {} }, true],
  ['a', { a: [] }, true],
  ['a.#(p>30)#', { a: [{ p: 1 }] }, true],
  ['a', undefined, false],
  ['!a', undefined, true],
  // Equality compares string forms.
  ["a == ''", { a: null }, true],
  ["a == 'null'", { a: null }, false],
  ['a == null', { a: 'null' }, false],
  ['a == null', {}, false],
  ['a != null', {}, false],
  ['a == 5', { a: '5' }, true],
  ["a == '5'", { a: 5 }, true],
  ['a == 5.0', { a: 5 }, true],
  ["a == '5.0'", { a: 5 }, false],
  ['a == 1e3', { a: 1000 }, true],
  ['a == 1000', { a: rawNumber('1000.00000000000000') }, true],
  ['a == 0', { a: -0 }, true],
  ['a == 9007199254740993', { a: rawNumber('9007199254740993') }, true],
  ['a == 9007199254740992', { a: rawNumber('9007199254740993') }, false],
  ['a == true', { a: true }, true],
  ["a == 'true'", { a: true }, true],
  [`a == '{"b":1}'`, { a: { b: 1 } }, true],
  [`a == '[1,2]'`, { a: [1, 2] }, true],
  ['a == yes', { a: 'yes' }, true],
  ['a in [1, two, null]', { a: null }, true],
  ["a in [1, two, '']", { a: null }, true],
  ['a in [1, two]', { a: 'two' }, true],
  ['a in [1, two]', { a: 1 }, true],
  ['a in [1, two]', { a: 3 }, false],
  ['a in [1]', {}, false],
  // Order: numbers, instants, text.
  ['a > 9', { a: '10' }, true],
  ["a > 'b'", { a: '10' }, false],
  ['a > 9007199254740992', { a: rawNumber('9007199254740993') }, true],
  ['a > 9007199254740993', { a: rawNumber('9007199254740993') }, false],
  ['a < 0.5', { a: rawNumber('0.49999999999999999999') }, true],
  ['a < 1e400', { a: 5 }, true],
  ['a > -1e400', { a: -5 }, true],
  ['a < 5', { a: null }, false],
  ['a >= false', { a: true }, true],
  ["a < '2026-01-01T00:00:00.1Z'", { a: '2026-01-01T00:00:00.099Z' }, true],
  ["a >= '2026-01-01T00:00:00.10Z'", { a: '2026-01-01T00:00:00.1Z' }, true],
  ["a < '\u{10000}'", { a: '\uffff' }, true],
  // Blanks and binding.
  ['  a  ==  1  ||  b  &&  c  ', { a: 1 }, true],
  ['!a == 1', { a: 2 }, true],
  ['!!a', { a: 1 }, true],
  ['a==1&&b==2||c==3', { c: 3 }, true],
  ["a.#(k=='x && y').v == 1", { a: [{ k: 'x && y', v: 1 }] }, true],
  ["$['a b'] == 1", { 'a b': 1 }, true],
  ['a\\ b == 1', { 'a b': 1 }, true],
  ['exists', { exists: 1 }, true],
  ['exists == 1', { exists: 1 }, true],
  ['exists ( a )', { a: null }, true],
  ['in in [1]', { in: 1 }, true],
  ["a matches 'b.d'", { a: 'abcde' }, true],
  ["a matches '^5$'", { a: 5 }, true],
  ["a matches ''", {}, false],
])('%s of %j is %s', (text, payload, expected) => {
  expect(holds(text, payload)).toBe(expected)
})

test('times in the metadata are RFC3339 in UTC', () => {
  const metadata = { timestamp: new Date('2024-01-15T08:00:07.486Z'), whole: new Date('2024-01-15T08:00:07Z') }
  expect(holds("metadata.timestamp == '2024-01-15T08:00:07.486Z'", {}, metadata)).toBe(true)
  expect(holds("metadata.whole == '2024-01-15T08:00:07Z'", {}, metadata)).toBe(true)
  expect(holds("metadata.timestamp < '2024-01-15T10:00:08+02:00'", {}, metadata)).toBe(true)
  expect(holds('exists(metadata.timestamp.getTime)', {}, metadata)).toBe(false)
})

test.each<[string, number, string]>([
  ['', 1, 'a path'],
  ['a = 1', 3, '&&, || or the end'],
  ['a |b', 3, '&&, || or the end'],
  ['a in []', 7, 'a value'],
  ['a in [1', 8, '"]"'],
  ['a matches x', 11, 'a pattern in quotes'],
  ["a matches '(b'", 11, 'RE2 syntax'],
  ["a matches '(?=b)'", 11, 'RE2 syntax'],
  ["a matches '(a{1,100}){1,9}'", 11, 'a smaller pattern'],
  ['$..x', 3, '$.. is not supported'],
  ['a.#(b==1', 9, '")"'],
])('refused: %s', (text, column, reason) => {
  const parsed = parseCondition(text, re2)
  expect(parsed).toMatchObject({ ok: false, column })
  expect(!parsed.ok && parsed.reason).toContain(reason)
})

test.each<[string, string, number, string]>([
  ['parentheses', `${'('.repeat(33)}a${')'.repeat(33)}`, 34, '32 levels'],
  ['negations', `${'!'.repeat(33)}a`, 34, '32 levels'],
  ['length', `a == '${'x'.repeat(4096)}'`, 4097, 'at most 4096 bytes'],
])('bounded: %s', (_what, text, column, reason) => {
  const parsed = parseCondition(text, re2)
  expect(parsed).toMatchObject({ ok: false, column })
  expect(!parsed.ok && parsed.reason).toContain(reason)
})

describe('hostile patterns', () => {
  const long = 'a'.repeat(100 * 1024)
  // Each would take years in an engine that tries one way after the other.
  test.each([
    '(a+)+$',
    '(a|a)*b',
    '(a*)*b',
    '((a+)+)+b',
    '(a|aa)+$',
    '(.*)*x',
    '([a-z]+)*[0-9]',
    '(x+x+)+y',
    '(a?){60}a{60}',
    '^(([a-z])+.)+[A-Z]([a-z])+$',
  ])('[X25] %s on 100 KiB matches or is rejected at once', (pattern) => {
    const before = performance.now()
    const parsed = parseCondition(`a matches '${pattern}'`, re2)
    if (parsed.ok) compileCondition(parsed.value, re2)({ a: long }, {})
    expect(performance.now() - before).toBeLessThan(10_000)
  })

  test('[X25] a pattern over the size limit is rejected before compilation', () => {
    for (const pattern of [
      '((((a{9}){9}){9}){9}){9}',
      `(${'abcdefghij'.repeat(300)}){1000}`,
      'x{1000}y{1000}'.repeat(200),
      `(${'(ab){30}'.repeat(20)}){30}`,
    ]) {
      const before = performance.now()
      expect(() => re2.compile(pattern)).toThrow('smaller pattern')
      expect(performance.now() - before).toBeLessThan(10_000)
    }
  })
})

test('[X25] script filters and long runs of dots are rejected quickly', () => {
  const before = performance.now()
  for (const text of [
    '$..x',
    `$${'..x'.repeat(1_000)}`,
    `${'a.'.repeat(1_500)}.b`,
    '.'.repeat(4_000),
    'a[?(@.x == 1)]',
    '$[(@.length-1)]',
    "a.#(constructor.constructor('return process')())",
    'a.@this',
    'a|@reverse',
  ])
    expect([text, parseCondition(text, re2).ok]).toEqual([text, false])
  expect(performance.now() - before).toBeLessThan(10_000)
})

describe('properties', () => {
  test('a printed condition parses to the same condition', () => {
    fc.assert(
      fc.property(condition, (root) => {
        const text = printCondition(root)
        expect(parseCondition(text)).toEqual({ ok: true, value: { text, root } })
      }),
      { numRuns: 1000 },
    )
  })

  test('evaluation never throws and changes nothing', () => {
    fc.assert(
      fc.property(condition, hostileJson, hostileJson, (root, payload, metadata) => {
        const before = JSON.stringify([payload, metadata])
        const engine = { compile: (pattern: string) => (text: string) => text.includes(pattern) }
        expect(typeof compileCondition({ text: '', root }, engine)(payload, metadata as Metadata)).toBe('boolean')
        expect(JSON.stringify([payload, metadata])).toBe(before)
      }),
      { numRuns: 1000 },
    )
  })

  test('every text parses or is rejected with a column within it', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.constantFrom(
            'a',
            'in',
            'matches',
            'exists',
            'metadata.',
            '(',
            ')',
            '!',
            '&&',
            '||',
            '==',
            '<',
            "'",
            '[',
            ']',
            ' ',
            '1',
            '#',
            '.',
          ),
          { maxLength: 15 },
        ),
        (words) => {
          const text = words.join('')
          const parsed = parseCondition(text, re2)
          expect(parsed.ok || (parsed.column >= 1 && parsed.column <= text.length + 1)).toBe(true)
        },
      ),
      { numRuns: 3000 },
    )
  })
})
