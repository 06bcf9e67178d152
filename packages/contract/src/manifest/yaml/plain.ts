// Plain scalars: no quotes, ended by ": ", " #", a line that is not indented enough or, in a flow collection, an indicator of it.
import { Char, isBlank, isFlowIndicator, isSpaceOrTab } from './characters.ts'
import { type Cursor, isEndMarker, nextLine, syntaxErrorAt } from './cursor.ts'

export interface Surroundings {
  /** Column of the innermost block collection, -1 outside all; continuation lines lie to the right of it. */
  readonly indent: number
  readonly inFlow: boolean
}

/** Leaves the cursor fresh when the scalar was ended by a line end. */
export function readPlain(at: Cursor, around: Surroundings): string {
  let value = readLine(at, around.inFlow)
  for (;;) {
    const breaks = passLineEnds(at, around.indent)
    if (breaks === 0) return value
    if (!goesOn(at, around)) return endFresh(at, value)
    const line = readLine(at, around.inFlow)
    if (line === '') return endFresh(at, value)
    value += breaks === 1 ? ` ${line}` : `${'\n'.repeat(breaks - 1)}${line}`
  }
}

function endFresh(at: Cursor, value: string): string {
  at.fresh = true
  return value
}

/** The part of the scalar on this line, without blanks at its end. */
function readLine(at: Cursor, inFlow: boolean): string {
  const { text } = at
  const start = at.pos
  let end = start
  for (let i = start; ; i++) {
    const code = text.charCodeAt(i)
    if (isSpaceOrTab(code)) continue
    if (isBlank(code) || (code === Char.hash && i > end)) break
    if (code === Char.colon && isBlank(text.charCodeAt(i + 1))) break
    if (inFlow && (code === Char.question || isFlowIndicator(code))) break
    end = i + 1
  }
  at.pos = end
  return text.slice(start, end)
}

/** How many line ends follow at once; if any, the cursor goes to the first text behind them. */
function passLineEnds(at: Cursor, indent: number): number {
  let pos = at.pos
  while (isSpaceOrTab(at.text.charCodeAt(pos))) pos++
  let breaks = 0
  while (at.text.charCodeAt(pos) === Char.lineFeed) {
    at.pos = pos
    nextLine(at)
    breaks += 1
    passIndentation(at, indent)
    pos = at.pos
  }
  return breaks
}

function passIndentation(at: Cursor, indent: number): void {
  for (let code = at.text.charCodeAt(at.pos); isSpaceOrTab(code); code = at.text.charCodeAt(++at.pos)) {
    if (code === Char.tab && at.pos - at.lineStart <= indent) throw tabError(at)
  }
}

export const tabError = (at: Cursor) => syntaxErrorAt(at, 'a tab where indentation is', 'indent with spaces')

function goesOn(at: Cursor, { indent, inFlow }: Surroundings): boolean {
  if (!inFlow && at.pos - at.lineStart <= indent) return false
  return at.text.charCodeAt(at.pos) !== Char.hash && !isEndMarker(at)
}
