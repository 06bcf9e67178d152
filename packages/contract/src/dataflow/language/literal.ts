// Literals of conditions and queries: quoted text, numbers, true, false, null, and bare words, which are text.
import { type Cursor, fail, isBlank, peek } from './cursor.ts'
import { isNumericText } from './decimal.ts'

export type Literal =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'number'; readonly text: string }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'null' }

export function readLiteral(cursor: Cursor): Literal {
  const first = peek(cursor)
  if (first === "'" || first === '"') return { kind: 'text', text: readQuoted(cursor) }
  const word = readBare(cursor)
  if (word === '') fail(cursor, 'expected a value')
  if (word === 'null') return { kind: 'null' }
  if (word === 'true' || word === 'false') return { kind: 'boolean', value: word === 'true' }
  return isNumericText(word) ? { kind: 'number', text: word } : { kind: 'text', text: word }
}

/** Characters that end a bare word: blanks, quotes, brackets, commas and operators. */
const notBare = new Set('\'"()[]{},=!<>&|')

function readBare(cursor: Cursor): string {
  const start = cursor.pos
  while (cursor.pos < cursor.text.length && !notBare.has(peek(cursor)) && !isBlank(peek(cursor))) cursor.pos += 1
  return cursor.text.slice(start, cursor.pos)
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\', "'": "'", '"': '"', n: '\n', t: '\t' }

/** Text in single or double quotes; the cursor is on the first quote. */
export function readQuoted(cursor: Cursor): string {
  const start = cursor.pos
  const quote = peek(cursor)
  let text = ''
  for (cursor.pos += 1; peek(cursor) !== quote; cursor.pos += 1) {
    if (cursor.pos >= cursor.text.length) fail(cursor, `expected a closing ${quote}`, start)
    text += peek(cursor) === '\\' ? readEscape(cursor) : peek(cursor)
  }
  cursor.pos += 1
  return text
}

/** Leaves the cursor on the last character of the escape. */
function readEscape(cursor: Cursor): string {
  cursor.pos += 1
  const character = peek(cursor)
  if (character !== 'u') return escapes[character] ?? fail(cursor, `expected one of \\\\ \\' \\" \\n \\t \\uXXXX`, cursor.pos - 1)
  const digits = cursor.text.slice(cursor.pos + 1, cursor.pos + 5)
  if (!/^[0-9a-fA-F]{4}$/.test(digits)) fail(cursor, 'expected four hexadecimal digits', cursor.pos + 1)
  cursor.pos += 4
  return String.fromCharCode(Number.parseInt(digits, 16))
}

export function printLiteral(literal: Literal): string {
  if (literal.kind === 'null') return 'null'
  if (literal.kind === 'boolean') return String(literal.value)
  return literal.kind === 'number' ? literal.text : printQuoted(literal.text)
}

/** Control characters and lone surrogates are escaped, so that the text can be copied. */
export const printQuoted = (text: string): string => `'${text.replace(/[\\']/g, '\\$&').replace(/\p{Cc}|\p{Surrogate}/gu, escapeUnit)}'`

function escapeUnit(unit: string): string {
  if (unit === '\n') return '\\n'
  if (unit === '\t') return '\\t'
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
