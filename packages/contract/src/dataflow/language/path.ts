// Paths into a payload: a subset of gjson's dot syntax, plus common JSONPath forms. Parsed once into segments, from which reading, writing
// and deleting are compiled. Enforces the limits of the language: length, nesting, number of wide segments.
import { type Cursor, expect, fail, isBlank, nested, type Parsed, parse, peek, skipBlanks, startsWith, take } from './cursor.ts'
import { wildcardLengthMax } from './glob.ts'
import { type Literal, readLiteral, readQuoted } from './literal.ts'

export interface Path {
  /** As the user wrote it. */
  readonly text: string
  /** None: the whole payload. */
  readonly segments: readonly Segment[]
}

export type Segment =
  | { readonly kind: 'key'; readonly key: string }
  /** An element of an array; on an object a key. */
  | { readonly kind: 'index'; readonly key: string; readonly index: number }
  /** `#`: every element, or at the end the length. */
  | { readonly kind: 'each' }
  | { readonly kind: 'wildcard'; readonly glob: string }
  | { readonly kind: 'query'; readonly query: Query }

export interface Query {
  /** From the element on; none: the element itself. */
  readonly segments: readonly Segment[]
  readonly operator: QueryOperator
  readonly literal: Literal
  /** `#(…)#` all matches, `#(…)` the first. */
  readonly all: boolean
}

const queryOperators = ['==', '!=', '<=', '>=', '<', '>', '%'] as const // longer ones first: that is how they are read
export type QueryOperator = (typeof queryOperators)[number]

/** Context of a path: in a query and in a condition, blanks and operators end it. */
type Mode = 'alone' | 'query' | 'condition'
const ends: Readonly<Record<Mode, ReadonlySet<string>>> = {
  alone: new Set(),
  query: new Set(' \t\n\r=!<>%)'),
  condition: new Set(' \t\n\r=!<>&|,)]\'"'),
}

/** Segments with many matches; each adds a loop at run time. */
const wideSegmentsMax = 32

export function parsePath(text: string): Parsed<Path> {
  const parsed = parse(text, (cursor) => readSegments(cursor, 'alone'))
  return parsed.ok ? { ok: true, value: { text, segments: parsed.value } } : parsed
}

export function readSegments(cursor: Cursor, mode: Mode): Segment[] {
  const segments: Segment[] = []
  if (isRoot(cursor, mode)) cursor.pos += 1
  else segments.push(readSegment(cursor, mode))
  for (;;) {
    if (take(cursor, '.')) segments.push(readSegment(cursor, mode))
    else if (peek(cursor) === '[') segments.push(readBracket(cursor))
    else break
  }
  if (segments.filter(isWide).length > wideSegmentsMax) fail(cursor, `expected at most ${wideSegmentsMax} wildcards, queries and #`)
  return segments
}

/** `$` is the root unless it starts a key, as in `$ref`. */
function isRoot(cursor: Cursor, mode: Mode): boolean {
  const after = cursor.text.charAt(cursor.pos + 1)
  return peek(cursor) === '$' && (after === '' || after === '.' || after === '[' || ends[mode].has(after))
}

export const isWide = (segment: Segment): boolean => segment.kind !== 'key' && segment.kind !== 'index'

function readSegment(cursor: Cursor, mode: Mode): Segment {
  const first = peek(cursor)
  if (first === '.') fail(cursor, cursor.text.charAt(cursor.pos - 2) === '$' ? 'expected a key: $.. is not supported' : 'expected a key')
  if (first === '@') fail(cursor, 'expected a key: @modifiers are not supported')
  if (first === '{' || first === '[') fail(cursor, 'expected a key: multipaths are not supported')
  if (first !== '#') return readKey(cursor, mode)
  if (startsWith(cursor, '#(')) return readQuery(cursor)
  cursor.pos += 1
  return { kind: 'each' }
}

const mustBeEscaped = new Set('|#()]')

function readKey(cursor: Cursor, mode: Mode): Segment {
  const start = cursor.pos
  let key = ''
  let glob = ''
  let isWild = false
  for (; cursor.pos < cursor.text.length; cursor.pos += 1) {
    const character = peek(cursor)
    if (character === '.' || character === '[' || ends[mode].has(character)) break
    if (mustBeEscaped.has(character)) refuse(cursor, character)
    if (character === '*' || character === '?') {
      isWild = true
      glob += character
      continue
    }
    const literal = character === '\\' ? readEscaped(cursor) : character
    key += literal
    glob += globSpecial.has(literal) ? `\\${literal}` : literal
  }
  if (cursor.pos === start) fail(cursor, 'expected a key')
  if (!isWild) return indexOrKey(key, cursor.text.slice(start, cursor.pos))
  if (glob.length > wildcardLengthMax) fail(cursor, `expected at most ${wildcardLengthMax} characters in a key with wildcards`, start)
  return { kind: 'wildcard', glob }
}

const globSpecial = new Set('*?\\')

function refuse(cursor: Cursor, character: string): never {
  if (character === '|') fail(cursor, 'expected the end of the key: pipes are not supported, and a key holding | writes \\|')
  fail(cursor, `expected \\${character}: this character must be escaped in a key`)
}

/** Leaves the cursor on the escaped character. Letters and digits need no escape: `\n` would be a mistake. */
function readEscaped(cursor: Cursor): string {
  cursor.pos += 1
  const character = peek(cursor)
  if (/^[A-Za-z0-9]?$/.test(character)) fail(cursor, 'expected a character that needs an escape')
  return character
}

/** Unquoted digits; nine of them cover every array length. */
const indexOrKey = (key: string, written: string): Segment =>
  /^[0-9]{1,9}$/.test(written) ? { kind: 'index', key, index: Number(key) } : { kind: 'key', key }

function readBracket(cursor: Cursor): Segment {
  expect(cursor, '[')
  const segment = readInBracket(cursor)
  expect(cursor, ']')
  return segment
}

function readInBracket(cursor: Cursor): Segment {
  const first = peek(cursor)
  if (first === "'" || first === '"') return { kind: 'key', key: readQuoted(cursor) }
  if (take(cursor, '*')) return { kind: 'each' }
  const digits = /[0-9]*/y
  digits.lastIndex = cursor.pos
  const index = digits.exec(cursor.text)![0]
  if (index === '' || index.length > 9) fail(cursor, 'expected an index, * or a key in quotes')
  cursor.pos += index.length
  return indexOrKey(index, index)
}

function readQuery(cursor: Cursor): Segment {
  return nested(cursor, () => {
    expect(cursor, '#(')
    skipBlanks(cursor)
    const segments = queryOperators.some((operator) => startsWith(cursor, operator)) ? [] : readSegments(cursor, 'query')
    skipBlanks(cursor)
    const operator =
      queryOperators.find((candidate) => take(cursor, candidate)) ?? fail(cursor, `expected one of ${queryOperators.join(' ')}`)
    skipBlanks(cursor)
    const at = cursor.pos
    const literal = readLiteral(cursor)
    if (operator === '%' && (literal.kind === 'text' ? literal.text.length : 0) > wildcardLengthMax)
      fail(cursor, `expected at most ${wildcardLengthMax} characters behind %`, at)
    skipBlanks(cursor)
    expect(cursor, ')')
    return { kind: 'query', query: { segments, operator, literal, all: take(cursor, '#') } }
  })
}

/** True where an unquoted path in a condition ends. */
export const endsPath = (character: string): boolean => character === '' || isBlank(character) || ends.condition.has(character)
