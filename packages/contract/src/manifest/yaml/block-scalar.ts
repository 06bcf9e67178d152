// Block scalars: | keeps line ends, > folds them; a digit sets the indentation, + and - say what happens to line ends at the end.
import { Char, isSpaceOrTab } from './characters.ts'
import { type Cursor, endOfLine, nextLine, syntaxErrorAt } from './cursor.ts'
import { tabError } from './plain.ts'

/** The cursor stands on | or > and ends, fresh, at the first text behind the scalar. */
export function readBlockScalar(at: Cursor, parentIndent: number): string {
  const folds = at.text.charCodeAt(at.pos) === Char.greater
  const { chomping, increment } = readHeader(at)
  const start = increment === 0 ? detectIndent(at, parentIndent) : passBlankLines(at, Math.max(parentIndent, 0) + increment)
  const body = folds ? readFolded(at, start) : readLiteral(at, start)
  at.fresh = true
  if (chomping === '-') return body.value
  return body.value + (body.hasText ? '\n' : '') + (chomping === '+' ? '\n'.repeat(body.blankLines) : '')
}

interface Body {
  /** Without the line end of its last line, and without the blank lines behind that. */
  readonly value: string
  readonly hasText: boolean
  readonly blankLines: number
}

interface Start {
  readonly indent: number
  readonly blankLines: number
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

/** The indentation is that of the first line of text or of the blank lines before it, whichever is deepest. */
function detectIndent(at: Cursor, parentIndent: number): Start {
  let deepest = 0
  for (let blankLines = 0; ; blankLines++) {
    while (at.text.charCodeAt(at.pos) === Char.space) at.pos++
    deepest = Math.max(deepest, at.pos - at.lineStart)
    const code = at.text.charCodeAt(at.pos)
    if (code === Char.tab) throw tabError(at)
    if (code !== Char.lineFeed) return { indent: Math.max(deepest, parentIndent + 1, 1), blankLines }
    nextLine(at)
  }
}

/** Passes lines that hold nothing but indentation, and the indentation of the next one. */
function passBlankLines(at: Cursor, indent: number): Start {
  for (let blankLines = 0; ; blankLines++) {
    const end = at.lineStart + indent
    while (at.pos < end && at.text.charCodeAt(at.pos) === Char.space) at.pos++
    const code = at.text.charCodeAt(at.pos)
    if (at.pos < end && code === Char.tab) throw tabError(at)
    if (code !== Char.lineFeed) return { indent, blankLines }
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

function readLiteral(at: Cursor, { indent, blankLines: blankLinesBefore }: Start): Body {
  let blankLines = blankLinesBefore
  const parts: string[] = []
  while (isText(at, indent)) {
    if (parts.length > 0) blankLines += 1
    parts.push('\n'.repeat(blankLines), readLine(at))
    blankLines = passBlankLines(at, indent).blankLines
  }
  return { value: parts.join(''), hasText: parts.length > 0, blankLines }
}

/** One line end becomes a space, several become one less; lines that start with a blank keep those around them. */
function readFolded(at: Cursor, { indent, blankLines: blankLinesBefore }: Start): Body {
  let blankLines = blankLinesBefore
  let lastIsIndented = false
  const parts: string[] = []
  while (isText(at, indent)) {
    const isIndented = isSpaceOrTab(at.text.charCodeAt(at.pos))
    const folds = parts.length > 0 && !lastIsIndented && !isIndented
    if (folds && blankLines === 0) parts.push(' ')
    parts.push('\n'.repeat(parts.length > 0 && !folds ? blankLines + 1 : blankLines), readLine(at))
    lastIsIndented = isIndented
    blankLines = passBlankLines(at, indent).blankLines
  }
  return { value: parts.join(''), hasText: parts.length > 0, blankLines }
}
