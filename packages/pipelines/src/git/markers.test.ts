import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { editMarkers, MarkerError } from './markers.ts'

const owner = 'shop:podinfo:prod'
const marker = (suffix = '') => `# {"$promotion": "${owner}${suffix}"}`
const bytes = (text: string) => new TextEncoder().encode(text)
const edit = (text: string, revision = '6.0.0'): string | null => {
  const result = editMarkers(bytes(text), { path: 'a.yaml', owner, revision })
  return result === null ? null : new TextDecoder('utf-8', { ignoreBOM: true }).decode(result)
}
const refusal = (content: string | Uint8Array, revision = '6.0.0'): string => {
  try {
    editMarkers(typeof content === 'string' ? bytes(content) : content, { path: 'a.yaml', owner, revision })
  } catch (error) {
    if (error instanceof MarkerError) return `${error.reason} ${error.message}`
    throw error
  }
  return 'accepted'
}

describe('the marked value changes', () => {
  test.each([
    ['behind the value', `a:\n  tag: 5.0.0 ${marker()}\n`, `a:\n  tag: 6.0.0 ${marker()}\n`],
    ['above the first entry of a block', `a:\n  ${marker()}\n  tag: 5.0.0\n`, `a:\n  ${marker()}\n  tag: 6.0.0\n`],
    ['above the first entry of the file', `${marker()}\ntag: 5.0.0\n`, `${marker()}\ntag: 6.0.0\n`],
    ['above a compact item', `a:\n${marker(':tag')}\n- image: r/x:5\n  b: 1\n`, `a:\n${marker(':tag')}\n- image: r/x:6.0.0\n  b: 1\n`],
    ['behind an item', `- 5 ${marker()}\n- 5\n`, `- 6.0.0 ${marker()}\n- 5\n`],
    ['behind an anchored value', `a: &v 5.0.0 ${marker()}\nb: *v\n`, `a: &v 6.0.0 ${marker()}\nb: *v\n`],
    ['behind a tagged value', `a: !!str 5.0.0 ${marker()}\n`, `a: !!str 6.0.0 ${marker()}\n`],
    ['behind an item of a flow sequence', `a: [\n  1, 5, ${marker()}\n  7]\n`, `a: [\n  1, 6.0.0, ${marker()}\n  7]\n`],
    ['in single quotes', `a: '5' ${marker()}`, `a: '6.0.0' ${marker()}`],
    ['in double quotes', `a: "5" ${marker()}`, `a: "6.0.0" ${marker()}`],
    ['with other keys in the marker', `a: 5 #{"x":1,"$promotion":"${owner}"}`, `a: 6.0.0 #{"x":1,"$promotion":"${owner}"}`],
    ['in every document', `a: 5 ${marker()}\n---\nb: 5 ${marker()}\n...\n`, `a: 6.0.0 ${marker()}\n---\nb: 6.0.0 ${marker()}\n...\n`],
    ['where a string holds the text of a marker', `b: '${marker()}'\na: 5 ${marker()}`, `b: '${marker()}'\na: 6.0.0 ${marker()}`],
    ['over several lines in quotes', `a: "5\n  0"  ${marker()}\n`, `a: "6.0.0"  ${marker()}\n`],
  ])('%s', (_place, before, after) => {
    expect(edit(before)).toBe(after)
  })

  test('every byte outside the value stays: indents, CRLF, BOM, comments, quotes, no final newline [P49]', () => {
    const before = `\uFEFF# head\r\nspec:\r\n    a:   'x'   # note\r\n\r\n    tag:   5.0.0   ${marker()}\t\r\n    ${marker()}\r\n    b: "5.0.0"\r\n    ü: "1"\r\n    list: [ 1,2 ,  3 ]\r\n    c: 'd'`
    expect(edit(before)).toBe(before.replace('tag:   5.0.0', 'tag:   6.0.0').replace('b: "5.0.0"', 'b: "6.0.0"'))
  })

  test('a marker of another environment or without one changes nothing', () => {
    expect(edit('a: 5 # {"$promotion": "shop:podinfo:dev"}\n')).toBe(null)
    expect(edit('a: 5 # {"$promotion": "shop:podinfo:production"}\n')).toBe(null)
    expect(edit(`a: "${marker().replaceAll('"', '\\"')}"\n`)).toBe(null)
    expect(edit('a: {{ broken\n# {"$promotion": "shop:podinfo:dev"}\n')).toBe(null)
  })

  test('a value that is right already keeps its bytes', () => {
    const text = `a: '6.0.0' ${marker()}\nb: 6.0.0 ${marker()}\n`
    expect(edit(text)).toBe(text)
    expect(edit(`a: 5 ${marker()}`, '5')).toBe(`a: 5 ${marker()}`)
  })
})

describe('a suffix selects what is written', () => {
  const digest = `sha256:${'a'.repeat(64)}`
  test.each([
    [':tag', 'r/x:5', '6', 'r/x:6'],
    [':tag', 'host:5000/r/x', '6', 'host:5000/r/x:6'],
    [':tag', `r/x:5@sha256:${'b'.repeat(64)}`, '6', 'r/x:6'],
    [':digest', `r/x:5@sha256:${'b'.repeat(64)}`, digest, `r/x:5@${digest}`],
    [':ref', 'old', 'main@sha1:abc', 'main'],
    [':sha', 'old', 'main@sha1:abcd', 'abcd'],
    [':version', 'old', '1.2.3+build.5', '1.2.3'],
  ])('%s is written [P50]', (suffix, before, revision, after) => {
    expect(edit(`a: ${before} ${marker(suffix)}`, revision)).toBe(`a: ${after} ${marker(suffix)}`)
  })

  test.each([
    '6.10',
    '1e3',
    '123e456',
    'true',
    'yes',
    'n',
    'null',
    '~',
    '0x1f',
    '0o7',
    '017',
    '1:30',
    '2026-01-01',
    '1_000',
    '- x',
    'a: b',
    'a #b',
  ])('a plain value is quoted when %s would be read otherwise [P50]', (revision) => {
    expect(edit(`a: 5.0.0 ${marker()}`, revision)).toBe(`a: ${JSON.stringify(revision)} ${marker()}`)
  })
})

describe('a marker that cannot be followed is refused with file and line', () => {
  test.each([
    ['a block scalar', `a: | ${marker()}\n  5\n`, 1],
    ['an entry with a block scalar', `${marker()}\na: |\n  5\n`, 1],
    ['an alias', `b: &x 1\na: *x ${marker()}\n`, 2],
    ['an empty value', `b: 1\na: ${marker()}\n`, 2],
    ['the head of a collection', `a: ${marker()}\n  b: 1\n`, 1],
    ['a flow collection', `a: {b: 1} ${marker()}\n`, 1],
    ['no entry', `a: 1\n${marker()}\n`, 2],
    ['a blank line', `${marker()}\n\na: 1\n`, 1],
    ['an unknown suffix', `a: 5 ${marker(':chart')}\n`, 1],
    ['a digest without one', `a: r/x:5 ${marker(':digest')}\n`, 1],
    ['two markers that differ', `${marker(':ref')}\na: 5 ${marker()}\n`, 2],
  ])('%s', (_what, text, line) => {
    expect(refusal(text, 'main@sha1:abc')).toMatch(new RegExp(`^MarkerUnsupported a\\.yaml:${line}: `))
  })

  test('a file that does not parse, or is not UTF-8, is unreadable', () => {
    expect(refusal(`a: 5 ${marker()}\nb: [1\n`)).toMatch(/^MarkerUnreadable a\.yaml:\d+: /)
    expect(refusal(`{{- if .Values.x }}\nb: 5 ${marker()}\n`)).toMatch(/^MarkerUnreadable/)
    expect(refusal(Buffer.concat([bytes(`a: 5 ${marker()}\nb: `), Buffer.from([0xff])]))).toMatch(/^MarkerUnreadable/)
    expect(refusal(`a: 5 ${marker()}\nb: ${'['.repeat(100_000)}\n`)).toMatch(/^MarkerUnreadable/)
  })

  test('a file over 1 MiB is refused', () => {
    expect(refusal(`a: 5 ${marker()}\n#${'x'.repeat(1024 * 1024)}\n`)).toMatch(/^FileTooLarge a\.yaml: /)
  })
})

/** A piece of a stream; `null` is the place of the marked value, which reads `before`. */
interface Piece {
  readonly head: string
  readonly before: string | null
  readonly style: string
  readonly tail: string
}
const fixed = (head: string): Piece => ({ head, before: null, style: '', tail: '' })

const name = fc.stringMatching(/^[a-z][a-z0-9]{0,5}$/)
const other = fc.oneof(
  name.map((key) => `${key}: x`),
  name.map((key) => `"${key}": 'it''s # no comment'`),
  name.map((key) => `# ${key}: note`),
  name.map((key) => `${key}: |\n      text ${marker()}\n\n      more`),
  name.map((key) => `${key}: >-\n      folded\n      text`),
  name.map((key) => `${key}: [1,  {a: b}, "c"] # list`),
  name.map((key) => `${key}: &anchor${key} 5.0.0`),
  name.map((key) => `${key}:\n        - 5.0.0\n        - nested:   ü 🚀`),
  name.map((key) => `${key}: 5 # {"$promotion": "shop:podinfo:dev"}`),
  fc.constant(''),
)
const style = fc.constantFrom('', "'", '"')
const marked = fc
  .record({ key: name, style, isAbove: fc.boolean(), prefix: fc.constantFrom('', '&m '), gap: fc.constantFrom(' ', '   ', '\t') })
  .map(
    ({ key, style: quote, isAbove, prefix, gap }): Piece => ({
      head: `${isAbove ? `${marker()}\n    ` : ''}${key}:  ${prefix}${quote}`,
      before: '5.0.0',
      style: quote,
      tail: `${quote}${isAbove ? '' : `${gap}${marker()}`}`,
    }),
  )
const stream = fc.record({
  documents: fc.array(fc.array(fc.oneof(other.map(fixed), marked), { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 3 }),
  newline: fc.constantFrom('\n', '\r\n'),
  hasBom: fc.boolean(),
  hasFinalNewline: fc.boolean(),
})
const revisions = fc.oneof(
  fc.constantFrom('6.0.0', '6.10', "it's", 'a"b', 'x: y', 'main@sha1:ab', 'ü🚀', '1'),
  fc.stringMatching(/^[ -~]{1,12}$/),
)

test('exactly the marked values differ in random streams [P49]', () => {
  fc.assert(
    fc.property(stream, revisions, ({ documents, newline, hasBom, hasFinalNewline }, revision) => {
      const pieces = documents.flatMap((entries, index) => [
        fixed(`${index === 0 ? '' : '---\n'}doc${index}:\n    first: 1\n`),
        ...entries.flatMap((entry) => [{ ...entry, head: `    ${entry.head}` }, fixed('\n')]),
      ])
      const write = (put: (piece: Piece) => string) => {
        const text = pieces.map((piece) => piece.head + (piece.before === null ? '' : put(piece)) + piece.tail).join('')
        return (hasBom ? '\uFEFF' : '') + (hasFinalNewline ? text : text.trimEnd()).replaceAll('\n', newline)
      }
      const result = edit(
        write(({ before }) => before!),
        revision,
      )
      if (!pieces.some(({ before }) => before !== null)) return result === null
      const double = JSON.stringify(revision)
      const inStyle = (quote: string, isQuoted: boolean) =>
        quote === "'" ? revision.replaceAll("'", "''") : quote === '"' ? double.slice(1, -1) : isQuoted ? double : revision
      // A plain value may be written plain or quoted; the table above decides which.
      return [false, true].some((isQuoted) => result === write((piece) => inStyle(piece.style, isQuoted)))
    }),
    { numRuns: 500 },
  )
})
