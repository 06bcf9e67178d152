import fc from 'fast-check'
import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import {
  defaultManifestLimits,
  isEmptyManifest,
  type JsonObject,
  type JsonValue,
  jsonText,
  ManifestError,
  type ManifestLimits,
  manifestWarnings,
  parseManifest,
} from './manifest.ts'
import { canonicalText, readCorpus } from './test-parts/manifest-corpus.ts'

const object = (text: string, limits?: Partial<ManifestLimits>) => parseManifest(text, limits)[0]?.object

function refusal(text: string, limits?: Partial<ManifestLimits>): ManifestError {
  try {
    parseManifest(text, limits)
  } catch (error) {
    if (error instanceof ManifestError) return error
    throw error
  }
  throw new Error('the manifest was taken')
}

const corpus = readCorpus()

test.each(corpus.filter(({ code }) => code === undefined))('$name reads as kubectl reads it', ({ text, kubectl }) => {
  expect(parseManifest(text).map((document) => canonicalText(document.object))).toEqual(kubectl)
})

test.each(corpus.filter(({ code }) => code !== undefined))('$name is refused as $code', ({ text, code }) => {
  expect(refusal(text).code).toBe(code)
})

test('a mode is octal, yes is true and a 64-bit integer keeps its digits', () => {
  expect(object('defaultMode: 0644\nflag: yes\nport: 9223372036854775807\nsafe: 42')).toEqual({
    defaultMode: 420,
    flag: true,
    port: 9223372036854775807n,
    safe: 42,
  })
})

test('keys that are equal as JSON texts are duplicates', () => {
  expect(refusal('1: a\n"1": b').code).toBe('duplicate_key')
  expect(refusal('yes: a\n"true": b').code).toBe('duplicate_key')
})

test('a list inside a list is expanded too', () => {
  const found = parseManifest('kind: List\nitems:\n- kind: List\n  items:\n  - {kind: A}\n- {kind: B}')
  expect(found.map((document) => document.object['kind'])).toEqual(['A', 'B'])
})

// Places.

test('every object has its line, index and path', () => {
  const text =
    '# first\n\na: 1\n---\n\n---\n# second\nkind: List\nitems:\n- b: 1\n\n- # here\n  b: 2\n- {b: 3}\n---\n{"kind": "List",\n"items": [\n {"c": 1}]}\n'
  expect(parseManifest(text).map(({ line, index, place }) => ({ line, index, place }))).toEqual([
    { line: 3, index: 0, place: 'document 1' },
    { line: 10, index: 1, place: 'document 2, item 1' },
    { line: 13, index: 2, place: 'document 2, item 2' },
    { line: 14, index: 3, place: 'document 2, item 3' },
    { line: 18, index: 4, place: 'document 3, item 1' },
  ])
})

test.each([
  ['a: 1\nb: "x', 2, 4],
  ['a: 1\nb: 2\na: 3', 3, 1],
  ['a:\n  - b\n c: 1', 3, 2],
  ['a: 1\n---\nb: &x 1\nc: *y', 4, 4],
  ['a: |\n  x\nb: !secret x', 3, 4],
  ['a: [1,\n  2\n', 3, 1],
  ['a: .inf', 1, 4],
  ['a: 1\r\n---\r\nb: 1\r\n\tc: 2', 4, 1],
  ['{"a": {"b": 1,\n "b": 2}}', 2, 2],
  ['a: 1\n--- b\n', 2, 1],
  ['kind: List\nitems:\n- a: 1\n- b\n', 1, 1],
  ['x: \u0001', 1, 4],
])('the fault of %j is told at line %i, column %i', (text, line, column) => {
  const error = refusal(text)
  expect([error.line, error.column]).toEqual([line, column])
  expect(error.message).toContain(`line ${line}, column ${column}`)
})

test('a list item that is not an object is named by its path', () => {
  expect(refusal('kind: List\nitems:\n- a: 1\n- b\n').message).toContain('document 1, item 2')
})

// Limits.

const nested = (depth: number) => `${'{a: '.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`
const indented = (depth: number) => Array.from({ length: depth }, (_, i) => `${' '.repeat(i)}a:`).join('\n')
const aliases = (count: number) => `a: &a 1\nb: [${Array.from({ length: count }, () => '*a').join(', ')}]`

test.each<[string, keyof ManifestLimits, string, (size: number) => string, number]>([
  ['bytes', 'bytesMax', 'too_large', (size) => `a: ${'x'.repeat(size - 3)}`, 1000],
  ['bytes of two-byte characters', 'bytesMax', 'too_large', (size) => `a: ${'é'.repeat((size - 4) / 2)}${size % 2 ? 'xx' : 'x'}`, 1000],
  ['bytes of a document', 'documentBytesMax', 'too_large', (size) => `a: 1\n---\na: ${'x'.repeat(size - 4)}\n---\na: 1`, 1000],
  ['documents', 'documentsMax', 'too_many_documents', (size) => 'a: 1\n---\n'.repeat(size), 2000],
  ['items of a list', 'documentsMax', 'too_many_documents', (size) => `kind: List\nitems:\n${'- a: 1\n'.repeat(size)}`, 2000],
  ['values', 'nodesMax', 'too_many_nodes', (size) => `a: [${'1,'.repeat(size - 2)}]`, 1000],
  ['values of JSON', 'nodesMax', 'too_many_nodes', (size) => `{"a": [1${',1'.repeat(size - 3)}]}`, 1000],
  ['values in blocks', 'nodesMax', 'too_many_nodes', (size) => `a:\n${'-\n'.repeat(size - 2)}`, 1000],
  ['values behind aliases', 'nodesMax', 'too_many_nodes', (size) => `a: &a [1, 2, 3]\nb: *a\nc: [${'1,'.repeat(size - 10)}]`, 1000],
  ['levels of flow', 'depthMax', 'too_deep', nested, 64],
  ['levels of blocks', 'depthMax', 'too_deep', indented, 64],
  ['levels of lists', 'depthMax', 'too_deep', (size) => `a:\n${'- '.repeat(size - 1)}x`, 64],
  ['levels of JSON', 'depthMax', 'too_deep', (size) => `{"a": ${'['.repeat(size - 1)}${']'.repeat(size - 1)}}`, 64],
  [
    'levels behind aliases',
    'depthMax',
    'too_deep',
    (size) => `a: &a ${nested(40)}\nb: ${'['.repeat(size - 41)}*a${']'.repeat(size - 41)}`,
    64,
  ],
  ['levels behind merges', 'depthMax', 'too_deep', (size) => `a: &a ${nested(size - 3)}\nb:\n  <<: {c: *a}`, 64],
  ['uses of aliases', 'aliasesMax', 'too_many_aliases', aliases, 100],
])('the limit of %s holds to the last one', (_what, name, code, text, limit) => {
  expect(() => parseManifest(text(limit), { [name]: limit })).not.toThrow()
  expect(refusal(text(limit + 1), { [name]: limit })).toMatchObject({ code, limit })
  expect(refusal(text(limit + 1), { [name]: limit }).message).toContain(String(limit))
})

test('the documented limits are the defaults', () => {
  expect(defaultManifestLimits).toEqual({
    bytesMax: 8_388_608,
    documentBytesMax: 3_145_728,
    documentsMax: 2_000,
    nodesMax: 200_000,
    depthMax: 64,
    aliasesMax: 100,
  })
})

// Hostile texts. Each is refused for what it is; none may take long or much, which the time limit of the test would tell.

const levels = Array.from('bcdefghi')
const bomb = (use: (previous: string) => string) =>
  ['a: &a [x, x, x, x, x, x, x, x, x]', ...levels.map((key, i) => `${key}: &${key} ${use(i === 0 ? 'a' : (levels[i - 1] ?? ''))}`)].join(
    '\n',
  )
const fill = (piece: string, bytes = 1_000_000) => piece.repeat(Math.floor(bytes / piece.length))

test.each<[string, string, string]>([
  ['an alias bomb of lists', bomb((previous) => `[${Array.from({ length: 9 }, () => `*${previous}`).join(', ')}]`), 'too_many_nodes'],
  [
    'an alias bomb of maps',
    bomb((previous) => `{p: *${previous}, q: *${previous}, r: *${previous}, s: *${previous}, t: *${previous}, u: *${previous}}`),
    'too_many_nodes',
  ],
  ['a hundred thousand aliases', `a: &a 1\nb:\n${fill('- *a\n')}`, 'too_many_aliases'],
  ['an alias of what contains it', 'a: &a [1, *a]', 'bad_alias'],
  ['brackets without end', fill('['), 'too_deep'],
  ['braces without end', fill('{a: '), 'too_deep'],
  ['JSON brackets without end', `{"a":${fill('[')}`, 'too_deep'],
  ['dashes without end', fill('- '), 'too_deep'],
  ['question marks without end', fill('? '), 'too_deep'],
  ['indentation without end', Array.from({ length: 2000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'), 'too_deep'],
  ['too many items', `a:\n${fill('- \n')}`, 'too_many_nodes'],
  ['too many documents', fill('---\na: 1\n', 8_000_000), 'too_many_documents'],
  ['more than 8 MiB', fill('a', 8_400_000), 'too_large'],
  ['more than 8 MiB in fewer characters', fill('é', 8_400_000), 'too_large'],
  ['a document of more than 3 MiB', `a: |\n${fill('  x\n', 3_200_000)}`, 'too_large'],
  ['quotes without end', `a: "${fill('\\\\')}`, 'syntax'],
  ['JSON quotes without end', `{"a":"${fill('\\"')}`, 'syntax'],
  ['a tag that makes things', 'a: !!js/function "() => 1"', 'bad_tag'],
  ['a tag with a handle of its own', 'a: !<tag:yaml.org,2002:python/object> x', 'bad_tag'],
  [
    'a merge of a bomb',
    bomb((previous) => `{<<: {p: *${previous}, q: *${previous}, r: *${previous}, s: *${previous}, t: *${previous}, u: *${previous}}}`),
    'too_many_nodes',
  ],
  ['half a character', 'a: \ud83d', 'syntax'],
  ['text hidden behind a line end of another YAML', 'a: 1 # \u2028b: 2', 'syntax'],
])('%s is refused', (_what, text, code) => {
  expect(refusal(text).code).toBe(code)
})

test.each<[string, string]>([
  ['comments', `a: 1\n${fill('# x\n')}`],
  ['blank lines', `a: 1\n${fill('\n')}`],
  ['separators', `${fill('---\n', 8_000_000)}a: 1`],
  ['escapes', `a: "${fill('\\n')}"`],
  ['folded lines', `a: >\n${fill('  x\n\n')}`],
  ['blank lines in a block', `a: |+\n${fill('\n')}`],
  ['lines of plain text', `a: ${fill('b\n  ')}`],
  ['digits', `a: ${fill('9')}`],
  ['underscores', `a: 1${fill('_')}`],
  ['end markers', `a: 1\n${fill('...\n')}`],
])('a mass of %s is read', (_what, text) => {
  expect(parseManifest(text)).toHaveLength(1)
})

test('no error message quotes the manifest', () => {
  const secret = 'S3CR3T'
  const texts = [
    `a: "${secret}`,
    `${secret}: 1\n${secret}: 2`,
    `a: !${secret} x`,
    `a: *${secret}`,
    `a: &${secret}.b 1`,
    `--- ${secret}`,
    `{"${secret}": 1, "${secret}": 2}`,
    `[${secret}]: 1`,
    `? {${secret}: 1}\n: 2`,
    `<<: ${secret}`,
    `a: !!int ${secret}`,
    `a: ${secret}: b`,
    `%${secret}`,
    secret,
    `kind: ${secret}List\nitems: ${secret}`,
  ]
  for (const text of texts) expect(refusal(text).message).not.toContain(secret)
})

test('any text is parsed or refused with a ManifestError', () => {
  const pieces = fc.constantFrom(
    'a',
    ': ',
    '- ',
    '\n',
    '\n  ',
    '"',
    "'",
    '[',
    ']',
    '{',
    '}',
    ',',
    '&a ',
    '*a',
    '!!str ',
    '|',
    '>',
    '? ',
    '#',
    '---\n',
    '...',
    '\t',
    '<<',
    '\\',
    '1',
    '\uFEFF',
    '\r',
  )
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string({ unit: 'binary' })), { maxLength: 30 }), (parts) => {
      const text = parts.join('')
      try {
        parseManifest(text)
      } catch (error) {
        expect(error).toBeInstanceOf(ManifestError)
      }
    }),
    { numRuns: 3000 },
  )
})

// What is written is read.

/** Without the characters that only escapes can bring through YAML. */
const isPrintable = (text: string) => !/(?![\t\n])[\p{Cc}\u2028\u2029\uFEFF\uFFFE\uFFFF]/u.test(text)
const texts = fc.oneof(
  fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed() && isPrintable(text)),
  fc.string({ unit: fc.constantFrom(...Array.from(' \n\t:#-?,[]{}&*!|>\'"%@`~=<\\.aeoy019')), maxLength: 12 }),
  fc.constantFrom(
    'yes',
    'n',
    'null',
    '~',
    '0644',
    '1e3',
    '1_000',
    '.inf',
    '<<',
    '2001-12-14',
    '---',
    '...',
    '',
    ' ',
    '- a',
    'a: b',
    '__proto__',
  ),
)
const json = (text: fc.Arbitrary<string>) =>
  fc.letrec<{ value: unknown; object: Record<string, unknown> }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom(null, true, false),
      fc.integer(),
      fc
        .double({ noNaN: true, noDefaultInfinity: true })
        .map((number) => (Number.isInteger(number) && !Number.isSafeInteger(number) ? 0.5 : number + 0)),
      text,
      fc.array(tie('value'), { maxLength: 4 }),
      tie('object'),
    ),
    object: fc.dictionary(
      text.filter((key) => key !== '__proto__' && key !== '<<'),
      tie('value'),
      { maxKeys: 5 },
    ),
  })).object

const print = (value: unknown, style: 'PLAIN' | 'QUOTE_DOUBLE' | 'QUOTE_SINGLE' | 'BLOCK_LITERAL' | 'BLOCK_FOLDED') =>
  stringify(value, { version: '1.1', defaultStringType: style, aliasDuplicateObjects: false, lineWidth: 40 })

test('quoted output of the yaml library is parsed', () => {
  fc.assert(
    fc.property(json(texts), fc.constantFrom('QUOTE_DOUBLE', 'QUOTE_SINGLE'), (value, style) => {
      expect(object(print(value, style))).toEqual(value)
    }),
    { numRuns: 1000 },
  )
})

/** The library prints texts with blanks at the ends of lines without quotes in ways that only YAML 1.2 reads back. */
const unquoted = texts.filter((text) => !/\t|^[ \n]|[ ]$|[ ]\n|\n[ ]/.test(text))

test('unquoted output of the yaml library is parsed', () => {
  fc.assert(
    fc.property(json(unquoted), fc.constantFrom('PLAIN', 'BLOCK_LITERAL', 'BLOCK_FOLDED'), (value, style) => {
      expect(object(print(value, style))).toEqual(value)
    }),
    { numRuns: 1000 },
  )
})

test('output of JSON.stringify is parsed', () => {
  fc.assert(
    fc.property(
      json(fc.string({ unit: 'binary' }).map((text) => text.toWellFormed())),
      fc.constantFrom(undefined, 2, '\t'),
      (value, indent) => {
        expect(object(JSON.stringify(value, null, indent))).toEqual(value)
      },
    ),
    { numRuns: 1500 },
  )
})

test('output of jsonText is parsed, including 64-bit integers', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
      const exact = value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value
      expect(object(jsonText({ a: [value] }))).toEqual({ a: [exact] })
      expect(object(`---\na: ${value}`)).toEqual({ a: exact })
    }),
  )
})

test('jsonText equals JSON.stringify and prints bigint as an integer', () => {
  const value: JsonValue = { a: [1, 'x"\n', null, true, {}], 'b"': 0.1 }
  expect(jsonText(value)).toBe(JSON.stringify(value))
  expect(jsonText([18446744073709551615n, -1n])).toBe('[18446744073709551615,-1]')
})

// Objects that others may work with.

test('no two parts are one, so that a stamp on one object stays there', () => {
  const [first, second] = parseManifest('kind: List\nitems:\n- &a {kind: A, labels: {x: 1}}\n- <<: *a\n  kind: B\n')
  stamp(first?.object['labels'])
  expect(second?.object).toEqual({ kind: 'B', labels: { x: 1 } })
  const aliased = object('a: &a {x: 1}\nb: *a\nc: [*a, *a]')
  stamp(aliased?.['b'])
  expect(aliased).toEqual({ a: { x: 1 }, b: { x: 1, stamped: true }, c: [{ x: 1 }, { x: 1 }] })
})

function stamp(map: JsonValue | undefined): void {
  Object.assign(map as JsonObject, { stamped: true })
}

test.each([
  '__proto__: {polluted: true}',
  '{"__proto__": {"polluted": true}}',
  '<<: {__proto__: {polluted: true}}',
  'a: &a {__proto__: {polluted: true}}\nb: *a',
])('maps of %j have no prototype to reach', (text) => {
  const read = object(text)
  expect(Object.getPrototypeOf(read)).toBeNull()
  expect(Object.keys(read ?? {})).toContain(text.startsWith('a') ? 'b' : '__proto__')
  expect('polluted' in {}).toBe(false)
})

// What a manifest lacks.

test.each([
  '',
  '\n\n',
  '# comment',
  '---',
  '---\n---\n# x\n---\nnull\n---\n~\n',
  '\uFEFF',
  '...\n',
  'kind: List\nitems: []',
  ' \r\n# x\r\n',
])('%j is empty', (text) => {
  expect(isEmptyManifest(text)).toBe(true)
  expect(parseManifest(text)).toEqual([])
})

test.each(['a: 1', '---\n# x\n---\n{}', 'text', '"', '- a', '# x\n!'])('%j is not empty', (text) => {
  expect(isEmptyManifest(text)).toBe(false)
})

test('an object without apiVersion, kind or name is warned about, each with its line', () => {
  const text =
    'apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\nkind: 1\nmetadata: {name: ""}\n---\napiVersion: v1\nkind: List\nitems:\n- kind: B\n  apiVersion: v1\n  metadata: x\n'
  expect(manifestWarnings(parseManifest(text))).toEqual([
    expect.stringMatching(/^document 2 \(line 5\): apiVersion is missing/),
    expect.stringMatching(/^document 2 \(line 5\): kind is missing/),
    expect.stringMatching(/^document 2 \(line 5\): metadata\.name is missing/),
    expect.stringMatching(/^document 3, item 1 \(line 11\): metadata\.name is missing/),
  ])
})
