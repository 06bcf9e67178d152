// Single and double quoted scalars: line ends fold into spaces; escapes exist in double quotes alone.

import { type SourceLocation, syntaxError } from '../manifest-error.ts'
import { Char, isSpaceOrTab } from './characters.ts'
import { type Cursor, isEndMarker, nextLine, syntaxErrorAt, toSourceLocation } from './cursor.ts'

/** The cursor stands on the opening quote and ends behind the closing one. */
export function readQuoted(at: Cursor): string {
  const { text } = at
  const quote = text.charCodeAt(at.pos)
  const place = toSourceLocation(at)
  at.pos += 1
  let value = ''
  let start = at.pos
  for (;;) {
    const code = text.charCodeAt(at.pos)
    if (code === quote) {
      const part = text.slice(start, at.pos)
      at.pos += 1
      if (quote === Char.doubleQuote || text.charCodeAt(at.pos) !== quote) return value + part
      value += `${part}'`
      at.pos += 1
    } else if (code === Char.backslash && quote === Char.doubleQuote) {
      value += text.slice(start, at.pos) + readEscape(at)
    } else if (code === Char.lineFeed) {
      value += trimBlanksAtEnd(text, start, at.pos) + foldBreaks(passLineEnds(at))
    } else if (Number.isNaN(code)) {
      throw unclosed(place)
    } else {
      at.pos += 1
      continue
    }
    if (isEndMarker(at)) throw unclosed(place)
    start = at.pos
  }
}

const unclosed = (place: SourceLocation) => syntaxError(place, 'a quoted text is not closed', 'add the closing quote')

function trimBlanksAtEnd(text: string, start: number, end: number): string {
  let last = end
  while (last > start && isSpaceOrTab(text.charCodeAt(last - 1))) last--
  return text.slice(start, last)
}

function passLineEnds(at: Cursor): number {
  let breaks = 0
  while (at.text.charCodeAt(at.pos) === Char.lineFeed) {
    nextLine(at)
    breaks += 1
    while (isSpaceOrTab(at.text.charCodeAt(at.pos))) at.pos++
  }
  return breaks
}

const foldBreaks = (breaks: number): string => (breaks === 1 ? ' ' : '\n'.repeat(breaks - 1))

const escapes: Readonly<Record<string, string>> = {
  '0': '\0',
  a: '\x07',
  b: '\b',
  t: '\t',
  '\t': '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  e: '\x1b',
  ' ': ' ',
  '"': '"',
  "'": "'",
  '\\': '\\',
  N: '\u0085',
  _: '\u00a0',
  L: '\u2028',
  P: '\u2029',
}

const codeLengths: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }

/** The cursor stands on the backslash and ends behind the escape. */
function readEscape(at: Cursor): string {
  const letter = at.text.charAt(at.pos + 1)
  if (letter === '\n') return passEscapedLineEnd(at)
  const codeLength = codeLengths[letter]
  if (codeLength !== undefined) return readCode(at, codeLength)
  const character = escapes[letter]
  if (character === undefined)
    throw syntaxErrorAt(at, 'an unknown escape in double quotes', 'write \\\\ for a backslash, or use single quotes')
  at.pos += 2
  return character
}

/** An escaped line end joins its lines; blank lines behind it stay. */
function passEscapedLineEnd(at: Cursor): string {
  at.pos += 1
  return '\n'.repeat(passLineEnds(at) - 1)
}

function readCode(at: Cursor, length: number): string {
  const digits = at.text.slice(at.pos + 2, at.pos + 2 + length)
  const code = digits.length === length && /^[0-9a-fA-F]+$/.test(digits) ? Number.parseInt(digits, 16) : Number.NaN
  const isCharacter = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff)
  if (!isCharacter) throw syntaxErrorAt(at, 'an escape in double quotes names no character', 'correct its hexadecimal digits')
  at.pos += 2 + length
  return String.fromCodePoint(code)
}
