// Block scalars: | keeps line ends, > folds them; a digit sets the indentation, + and - say what happens to line ends at the end.
import { Char, isSpaceOrTab } from './characters.ts'
import { type Cursor, endOfLine, nextLine, syntaxErrorAt } from './cursor.ts'
import { tabError } from './plain.ts'

/** The cursor stands on | or > and ends, fresh, at the first text behind the scalar. */
export function readBlockScalar(at: Cursor, parentIndent: number): string {
  const folds = at.text.charCodeAt(at.pos) === Char.greater
  const { chomping, increment } = readHeader(at)
  let breaks = ''
  let indent = increment === 0 ? 0 : Math.max(parentIndent, 0) + increment
  if (indent === 0) [indent, breaks] = detectIndent(at, parentIndent)
  else breaks = passBlankLines(at, indent)
  const body = folds ? readFolded(at, indent, breaks) : readLiteral(at, indent, breaks)
  at.fresh = true
  if (chomping === '-') return body.value
  return body.value + body.lastBreak + (chomping === '+' ? body.breaks : '')
}

interface Body {
  readonly value: string
  /** Line end of the last line of text, and those of the blank lines behind it. */
  readonly lastBreak: string
  readonly breaks: string
}

const header = /[|>](?:([-+])([1-9])?|([1-9])([-+])?)?[ \t]*(?:#.*)?(?=\n)/y

function readHeader(at: Cursor): { chomping: string; increment: number } {
  header.lastIndex = at.pos
  const found = header.exec(at.text)
  if (found === null)
    throw syntaxErrorAt(at, 'the first line of a block text', 'only + or -, a digit from 1 to 9 and a comment may stand there')
  at.pos += found[0].length
  nextLine(at)
  return { chomping: found[1] ?? found[4] ?? '', increment: Number(found[2] ?? found[3] ?? 0) }
}

/** The deepest of the blank lines at the start and the first line of text. */
function detectIndent(at: Cursor, parentIndent: number): [number, string] {
  let deepest = 0
  let breaks = ''
  for (;;) {
    while (at.text.charCodeAt(at.pos) === Char.space) at.pos++
    deepest = Math.max(deepest, at.pos - at.lineStart)
    const code = at.text.charCodeAt(at.pos)
    if (code === Char.tab) throw tabError(at)
    if (code !== Char.lineFeed) return [Math.max(deepest, parentIndent + 1, 1), breaks]
    breaks += '\n'
    nextLine(at)
  }
}

/** Passes lines that hold nothing but indentation, and the indentation of the next one. */
function passBlankLines(at: Cursor, indent: number): string {
  let breaks = ''
  for (;;) {
    const end = at.lineStart + indent
    while (at.pos < end && at.text.charCodeAt(at.pos) === Char.space) at.pos++
    const code = at.text.charCodeAt(at.pos)
    if (at.pos < end && code === Char.tab) throw tabError(at)
    if (code !== Char.lineFeed) return breaks
    breaks += '\n'
    nextLine(at)
  }
}

const isText = (at: Cursor, indent: number): boolean => at.pos - at.lineStart === indent && at.pos < at.text.length

function readLine(at: Cursor): string {
  const end = endOfLine(at.text, at.pos)
  const line = at.text.slice(at.pos, end)
  at.pos = end
  nextLine(at)
  return line
}

function readLiteral(at: Cursor, indent: number, breaksBefore: string): Body {
  let value = ''
  let lastBreak = ''
  let breaks = breaksBefore
  while (isText(at, indent)) {
    value += lastBreak + breaks + readLine(at)
    lastBreak = '\n'
    breaks = passBlankLines(at, indent)
  }
  return { value, lastBreak, breaks }
}

/** Lines that start with a blank keep the line ends around them. */
function readFolded(at: Cursor, indent: number, breaksBefore: string): Body {
  let value = ''
  let lastBreak = ''
  let breaks = breaksBefore
  let lastIsIndented = false
  while (isText(at, indent)) {
    const isIndented = isSpaceOrTab(at.text.charCodeAt(at.pos))
    const folded = lastIsIndented || isIndented || lastBreak === '' ? lastBreak : breaks === '' ? ' ' : ''
    value += folded + breaks + readLine(at)
    lastBreak = '\n'
    lastIsIndented = isIndented
    breaks = passBlankLines(at, indent)
  }
  return { value, lastBreak, breaks }
}
