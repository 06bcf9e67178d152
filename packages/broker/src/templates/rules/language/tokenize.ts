// Splits the inside of a tag into tokens. A path such as `rows.1["tags"][key]` is one token, because its parts must touch.
import type { Path, Position } from './syntax-tree.ts'
import { TemplateSyntaxError } from './template-errors.ts'

export type Token =
  | { readonly is: 'path'; readonly path: Path; readonly at: number }
  | { readonly is: 'string'; readonly text: string; readonly at: number }
  | { readonly is: 'integer' | 'fraction' | 'symbol'; readonly text: string; readonly at: number }
  | { readonly is: 'end'; readonly at: number }

/** Where a tag's content starts in the template, to report positions. */
export interface Source {
  readonly text: string
  readonly locate: (offset: number) => Position
}

const symbols = ['::', '==', '!=', '<=', '>=', '<', '>', '(', ')', '[', ']', ',', '|', '=', '+', '-', '*', '/', '%', '~']
const space = /[ \t\r\n]+/y
const fraction = /(?:0|[1-9]\d*)\.\d+/y
const integer = /(?:0|[1-9]\d*)(?!\d)/y
const name = /[A-Za-z_]\w*/y
const member = /\.(\w+)/y
const index = /\[(-?\d+)\]/y
const nestingMax = 32

/** Reads tokens from `from` up to the closing mark, which is not inside a string. */
export function tokenize(source: Source, from: number, close: string): { readonly tokens: readonly Token[]; readonly end: number } {
  const tokens: Token[] = []
  let at = skipSpace(source.text, from)
  while (!startsClose(source.text, at, close)) {
    if (at >= source.text.length) throw new TemplateSyntaxError(`this tag is not closed by ${close}`, source.locate(from))
    const { token, end } = readToken(source, at)
    tokens.push(token)
    at = skipSpace(source.text, end)
  }
  tokens.push({ is: 'end', at })
  return { tokens, end: at }
}

const startsClose = (text: string, at: number, close: string): boolean => text.startsWith(close, at) || text.startsWith(`-${close}`, at)

function skipSpace(text: string, at: number): number {
  space.lastIndex = at
  return space.test(text) ? space.lastIndex : at
}

function readToken(source: Source, at: number): { readonly token: Token; readonly end: number } {
  const { text } = source
  const quote = text[at]
  if (quote === '"' || quote === "'" || quote === '`') {
    const end = endOfString(source, at)
    return { token: { is: 'string', text: text.slice(at + 1, end - 1), at }, end }
  }
  for (const [is, pattern] of [['fraction', fraction] as const, ['integer', integer] as const]) {
    const match = matchAt(pattern, text, at)
    if (match !== null) return { token: { is, text: match[0], at }, end: at + match[0].length }
  }
  if (matchAt(name, text, at) !== null) {
    const { path, end } = readPath(source, at, 0)
    return { token: { is: 'path', path, at }, end }
  }
  const symbol = symbols.find((candidate) => text.startsWith(candidate, at))
  if (symbol === undefined) throw new TemplateSyntaxError('this character has no meaning inside a tag', source.locate(at))
  return { token: { is: 'symbol', text: symbol, at }, end: at + symbol.length }
}

function endOfString(source: Source, at: number): number {
  const end = source.text.indexOf(source.text[at] ?? '"', at + 1)
  if (end === -1) throw new TemplateSyntaxError('this text has no closing quote', source.locate(at))
  return end + 1
}

function readPath(source: Source, from: number, depth: number): { readonly path: Path; readonly end: number } {
  if (depth > nestingMax) throw new TemplateSyntaxError(`indexes are nested deeper than ${nestingMax}`, source.locate(from))
  const first = matchAt(name, source.text, from)
  if (first === null) throw new TemplateSyntaxError('a name or an index must follow [', source.locate(from))
  const segments: (string | Path)[] = []
  let at = from + first[0].length
  for (;;) {
    const plain = matchAt(member, source.text, at) ?? matchAt(index, source.text, at)
    if (plain !== null) {
      segments.push(plain[1] ?? '')
      at += plain[0].length
    } else if (source.text[at] === '[') {
      const { segment, end } = readBracket(source, at + 1, depth)
      segments.push(segment)
      at = end
    } else return { path: { is: 'path', name: first[0], segments }, end: at }
  }
}

function readBracket(source: Source, at: number, depth: number): { readonly segment: string | Path; readonly end: number } {
  const isQuoted = source.text[at] === '"' || source.text[at] === "'" || source.text[at] === '`'
  const inner = isQuoted ? { path: null, end: endOfString(source, at) } : readPath(source, at, depth + 1)
  if (source.text[inner.end] !== ']') throw new TemplateSyntaxError('] is missing', source.locate(inner.end))
  return { segment: inner.path ?? source.text.slice(at + 1, inner.end - 1), end: inner.end + 1 }
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(text)
}
