// Where a reader stands in the text of one document, and how it gets to the next token.
import type { JsonObject } from '../json-text.ts'
import { type ManifestError, type SourceLocation, syntaxError } from '../manifest-error.ts'
import { type Budget, checkDepth, spendNodes } from '../manifest-limits.ts'
import { Char, isBlank } from './characters.ts'
import type { Anchor } from './node.ts'
import type { Chunk } from './split.ts'

export interface Cursor {
  readonly text: string
  readonly budget: Budget
  readonly anchors: Map<string, Anchor>
  /** Lines of the maps that are items of a list, for messages about them. */
  readonly itemLines: Map<JsonObject, number>
  pos: number
  /** Line of the manifest, from 1. */
  line: number
  lineStart: number
  /** Of the token that skipToToken found, from 0; -1 at the end of the document. */
  column: number
  /** Nothing but indentation and block indicators stand before the cursor on its line: a block collection or a key may start here. */
  fresh: boolean
  /** Levels of maps and lists that the node being read reaches. */
  deepest: number
}

export const openCursor = (chunk: Chunk, budget: Budget): Cursor => ({
  text: chunk.text,
  budget,
  anchors: new Map(),
  itemLines: new Map(),
  pos: 0,
  line: chunk.line,
  lineStart: 0,
  column: 0,
  fresh: true,
  deepest: 0,
})

/** Passes spaces, comments and line ends. Tabs count as spaces wherever they cannot be taken for indentation. */
export function skipToToken(at: Cursor, inFlow: boolean): void {
  const { text } = at
  for (;;) {
    while (isSpace(text.charCodeAt(at.pos), inFlow || !at.fresh)) at.pos += 1
    if (text.charCodeAt(at.pos) === Char.hash) at.pos = endOfLine(text, at.pos)
    if (text.charCodeAt(at.pos) !== Char.lineFeed) break
    nextLine(at)
    if (!inFlow) at.fresh = true
  }
  at.column = isDocumentEnd(at) ? -1 : at.pos - at.lineStart
}

const isSpace = (code: number, tabsToo: boolean): boolean => code === Char.space || (tabsToo && code === Char.tab)

/** The cursor stands on a line feed and goes to the start of the next line. */
export function nextLine(at: Cursor): void {
  at.pos += 1
  at.line += 1
  at.lineStart = at.pos
}

export function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end < 0 ? text.length : end
}

const isDocumentEnd = (at: Cursor): boolean => at.pos >= at.text.length || isEndMarker(at)

/** A line that starts with three dots; separator lines are gone already. */
export const isEndMarker = (at: Cursor): boolean =>
  at.pos === at.lineStart && at.text.startsWith('...', at.pos) && isBlank(at.text.charCodeAt(at.pos + 3))

/** True for the indicators - ? : when a blank follows them. */
export const isIndicator = (at: Cursor, code: number): boolean =>
  at.text.charCodeAt(at.pos) === code && isBlank(at.text.charCodeAt(at.pos + 1))

export const toSourceLocation = (at: Cursor): SourceLocation => ({ line: at.line, column: at.pos - at.lineStart + 1 })

export const syntaxErrorAt = (at: Cursor, what: string, todo: string): ManifestError => syntaxError(toSourceLocation(at), what, todo)

/** Called before a map or list is made; `depth` counts it. */
export function enterCollection(at: Cursor, depth: number): void {
  checkDepth(at.budget, depth, toSourceLocation(at))
  spendNodes(at.budget, 1, toSourceLocation(at))
  if (depth > at.deepest) at.deepest = depth
}
