// Conditions of filters, routes and `when`: model and parser. compile-condition.ts evaluates them; text that cannot be parsed is refused
// with its column, so evaluation never fails.
import { type Cursor, expect, fail, isBlank, nested, type Parsed, parse, peek, skipBlanks, startsWith, take } from './cursor.ts'
import { type Literal, readLiteral, readQuoted } from './literal.ts'
import { endsPath, readSegments, type Segment } from './path.ts'
import { type PatternEngine, PatternRefused } from './patterns.ts'

export interface Condition {
  /** As the user wrote it; a router records it. */
  readonly text: string
  readonly root: ConditionNode
}

export type ConditionNode =
  | { readonly kind: 'or'; readonly of: readonly ConditionNode[] }
  | { readonly kind: 'and'; readonly of: readonly ConditionNode[] }
  | { readonly kind: 'not'; readonly of: ConditionNode }
  | { readonly kind: 'truth'; readonly operand: Operand }
  | { readonly kind: 'exists'; readonly operand: Operand }
  | { readonly kind: 'compare'; readonly operand: Operand; readonly operator: CompareOperator; readonly literal: Literal }
  | { readonly kind: 'in'; readonly operand: Operand; readonly literals: readonly Literal[] }
  | { readonly kind: 'matches'; readonly operand: Operand; readonly pattern: string }

export interface Operand {
  readonly from: 'payload' | 'metadata'
  readonly segments: readonly Segment[]
}

const compareOperators = ['==', '!=', '<=', '>=', '<', '>'] as const // longer ones first: that is how they are read
export type CompareOperator = (typeof compareOperators)[number]

/** With an engine the patterns are compiled too, so that an invalid one is reported with its column. */
export function parseCondition(text: string, patterns?: PatternEngine): Parsed<Condition> {
  const parsed = parse(text, (cursor) => {
    const root = readOr(cursor, patterns)
    if (cursor.pos < text.length) fail(cursor, 'expected &&, || or the end')
    return root
  })
  return parsed.ok ? { ok: true, value: { text, root: parsed.value } } : parsed
}

function readOr(cursor: Cursor, patterns: PatternEngine | undefined): ConditionNode {
  const of = [readAnd(cursor, patterns)]
  while (take(cursor, '||')) of.push(readAnd(cursor, patterns))
  return of.length === 1 ? of[0]! : { kind: 'or', of }
}

function readAnd(cursor: Cursor, patterns: PatternEngine | undefined): ConditionNode {
  const of = [readNot(cursor, patterns)]
  while (take(cursor, '&&')) of.push(readNot(cursor, patterns))
  return of.length === 1 ? of[0]! : { kind: 'and', of }
}

/** Leaves the cursor after trailing blanks, as all readers below do. */
function readNot(cursor: Cursor, patterns: PatternEngine | undefined): ConditionNode {
  skipBlanks(cursor)
  if (take(cursor, '!')) return nested(cursor, () => ({ kind: 'not', of: readNot(cursor, patterns) }))
  const node = readTerm(cursor, patterns)
  skipBlanks(cursor)
  return node
}

function readTerm(cursor: Cursor, patterns: PatternEngine | undefined): ConditionNode {
  if (take(cursor, '(')) {
    const inner = nested(cursor, () => readOr(cursor, patterns))
    expect(cursor, ')')
    return inner
  }
  if (startsExists(cursor)) return readExists(cursor)
  const operand = readOperand(cursor)
  skipBlanks(cursor)
  return readComparison(cursor, operand, patterns)
}

const startsExists = (cursor: Cursor): boolean => {
  const pattern = /exists[ \t\r\n]*\(/y
  pattern.lastIndex = cursor.pos
  return pattern.test(cursor.text)
}

function readExists(cursor: Cursor): ConditionNode {
  expect(cursor, 'exists')
  skipBlanks(cursor)
  expect(cursor, '(')
  skipBlanks(cursor)
  const operand = readOperand(cursor)
  skipBlanks(cursor)
  expect(cursor, ')')
  return { kind: 'exists', operand }
}

function readOperand(cursor: Cursor): Operand {
  if (endsPath(peek(cursor))) fail(cursor, 'expected a path, "!" or "("')
  const from = take(cursor, 'metadata.') ? 'metadata' : 'payload'
  return { from, segments: readSegments(cursor, 'condition') }
}

function readComparison(cursor: Cursor, operand: Operand, patterns: PatternEngine | undefined): ConditionNode {
  const operator = compareOperators.find((candidate) => take(cursor, candidate))
  if (operator !== undefined) {
    skipBlanks(cursor)
    return { kind: 'compare', operand, operator, literal: readLiteral(cursor) }
  }
  if (takeWord(cursor, 'in')) return { kind: 'in', operand, literals: readList(cursor) }
  if (takeWord(cursor, 'matches')) return { kind: 'matches', operand, pattern: readPattern(cursor, patterns) }
  return { kind: 'truth', operand }
}

/** A word before a bracket, a quote or a blank. */
function takeWord(cursor: Cursor, word: string): boolean {
  const after = cursor.text.charAt(cursor.pos + word.length)
  if (!startsWith(cursor, word) || !(isBlank(after) || after === '[' || after === "'" || after === '"')) return false
  cursor.pos += word.length
  skipBlanks(cursor)
  return true
}

function readList(cursor: Cursor): Literal[] {
  const literals: Literal[] = []
  expect(cursor, '[')
  do {
    skipBlanks(cursor)
    literals.push(readLiteral(cursor))
    skipBlanks(cursor)
  } while (take(cursor, ','))
  expect(cursor, ']')
  return literals
}

function readPattern(cursor: Cursor, patterns: PatternEngine | undefined): string {
  const at = cursor.pos
  if (peek(cursor) !== "'" && peek(cursor) !== '"') fail(cursor, 'expected a pattern in quotes')
  const pattern = readQuoted(cursor)
  try {
    patterns?.compile(pattern)
  } catch (error) {
    if (!(error instanceof PatternRefused)) throw error
    fail(cursor, `expected ${error.message}`, at)
  }
  return pattern
}
