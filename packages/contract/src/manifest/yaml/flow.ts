// Flow collections, [a, b] and {a: b}, and the scalars and aliases that the block reader shares with them.
import type { JsonValue } from '../json-text.ts'
import { Char, isBlank, isFlowIndicator, isSpaceOrTab } from './characters.ts'
import { type Cursor, enterCollection, skipToToken, syntaxErrorAt, toSourceLocation } from './cursor.ts'
import { addEntry, type Entries, openEntries } from './entries.ts'
import { emptyScalar, type Node, readAlias, toJsonValue } from './node.ts'
import { readPlain, type Surroundings, tabError } from './plain.ts'
import { noProperties, readProperties, withProperties } from './properties.ts'
import { readQuoted } from './quoted.ts'

/** A node without its properties: scalar, alias or flow collection. `depth` counts the collections around it. */
export function readAtom(at: Cursor, around: Surroundings, depth: number): Node {
  const code = at.text.charCodeAt(at.pos)
  const place = toSourceLocation(at)
  if (at.column < 0) throw syntaxErrorAt(at, 'the document ends where a value is due', 'complete it')
  at.fresh = false
  if (code === Char.bracketOpen) return readFlowSequence(at, around.indent, depth + 1)
  if (code === Char.braceOpen) return readFlowMapping(at, around.indent, depth + 1)
  if (code === Char.asterisk) return readAlias(at, depth)
  const isQuoted = code === Char.doubleQuote || code === Char.singleQuote
  if (!isQuoted && !startsPlain(at, code, around.inFlow)) throw unexpected(at, code)
  const text = isQuoted ? readQuoted(at) : readPlain(at, around)
  return { kind: 'scalar', text, plain: !isQuoted, tag: null, line: place.line, column: place.column }
}

const indicators = new Set(Array.from('#&!|>%@`\uFEFF', (character) => character.charCodeAt(0)))

function startsPlain(at: Cursor, code: number, inFlow: boolean): boolean {
  const next = at.text.charCodeAt(at.pos + 1)
  if (code === Char.dash) return !isBlank(next)
  if (code === Char.question || code === Char.colon) return !inFlow && !isBlank(next)
  return !isBlank(code) && !isFlowIndicator(code) && !indicators.has(code)
}

function unexpected(at: Cursor, code: number) {
  if (code === Char.tab) return tabError(at)
  return syntaxErrorAt(at, 'a character that cannot start a value there', 'check the indentation, or put the value in quotes')
}

/** A key and its colon stand on one line, at most 1,024 characters apart. */
export function atKeyColon(at: Cursor, start: { readonly pos: number; readonly line: number }, inFlow: boolean): boolean {
  if (at.line !== start.line) return false
  let pos = at.pos
  while (isSpaceOrTab(at.text.charCodeAt(pos))) pos++
  if (at.text.charCodeAt(pos) !== Char.colon || !(inFlow || isBlank(at.text.charCodeAt(pos + 1)))) return false
  at.pos = pos
  if (pos - start.pos > keyLengthMax && Array.from(at.text.slice(start.pos, pos)).length > keyLengthMax) {
    throw syntaxErrorAt(at, `a key is longer than ${keyLengthMax} characters`, 'make it shorter')
  }
  return true
}

const keyLengthMax = 1024

function readFlowNode(at: Cursor, indent: number, depth: number): Node {
  const properties = readProperties(at, depth, true)
  const code = at.text.charCodeAt(at.pos)
  if (properties === noProperties) return readAtom(at, { indent, inFlow: true }, depth)
  if (code === Char.asterisk) throw syntaxErrorAt(at, 'an alias has an anchor or a tag', 'remove it')
  const isEmpty = code === Char.comma || code === Char.bracketClose || code === Char.braceClose || code === Char.colon
  const node = isEmpty ? emptyScalar(toSourceLocation(at)) : readAtom(at, { indent, inFlow: true }, depth)
  return withProperties(at, properties, node, depth)
}

function readFlowSequence(at: Cursor, indent: number, depth: number): Node {
  const place = toSourceLocation(at)
  enterCollection(at, depth)
  const value: JsonValue[] = []
  readItems(at, Char.bracketClose, () => {
    const item = readFlowItem(at, indent, depth)
    value.push(toJsonValue(at, item))
    if (item.kind === 'collection' && !Array.isArray(item.value)) at.itemLines.set(item.value, item.line)
  })
  return { kind: 'collection', value, line: place.line, column: place.column }
}

function readFlowMapping(at: Cursor, indent: number, depth: number): Node {
  const place = toSourceLocation(at)
  enterCollection(at, depth)
  const entries = openEntries()
  readItems(at, Char.braceClose, () => {
    if (at.text.charCodeAt(at.pos) === Char.question) return readExplicitEntry(at, entries, indent, depth)
    const start = { pos: at.pos, line: at.line }
    const key = readFlowNode(at, indent, depth)
    if (atKeyColon(at, start, true)) return readFlowValue(at, entries, key, indent, depth)
    addEntry(at, entries, key, emptyScalar(toSourceLocation(at)), false)
  })
  return { kind: 'collection', value: entries.map, line: place.line, column: place.column }
}

/** From the opening bracket to behind the closing one; a comma between items, one may stand behind the last. */
function readItems(at: Cursor, close: number, readItem: () => void): void {
  at.pos += 1
  skipToToken(at, true)
  while (at.text.charCodeAt(at.pos) !== close) {
    if (at.column < 0) throw syntaxErrorAt(at, 'a list or map in brackets is not closed', 'add the closing bracket')
    readItem()
    skipToToken(at, true)
    const code = at.text.charCodeAt(at.pos)
    if (code === Char.comma) {
      at.pos += 1
      skipToToken(at, true)
    } else if (code !== close || at.column < 0) {
      throw syntaxErrorAt(at, 'a comma or the closing bracket is missing', 'add it before this place, or put the value in quotes')
    }
  }
  at.pos += 1
  at.fresh = false
}

/** An item of a list may be a map of one entry without braces. */
function readFlowItem(at: Cursor, indent: number, depth: number): Node {
  const start = { pos: at.pos, line: at.line }
  const place = toSourceLocation(at)
  const isExplicit = at.text.charCodeAt(at.pos) === Char.question
  const key = isExplicit ? null : readFlowNode(at, indent, depth)
  if (key !== null && !atKeyColon(at, start, true)) return key
  enterCollection(at, depth + 1)
  const entries = openEntries()
  if (key === null) readExplicitEntry(at, entries, indent, depth + 1)
  else readFlowValue(at, entries, key, indent, depth + 1)
  return { kind: 'collection', value: entries.map, line: place.line, column: place.column }
}

function readExplicitEntry(at: Cursor, entries: Entries, indent: number, depth: number): void {
  at.pos += 1
  skipToToken(at, true)
  const key = readFlowNode(at, indent, depth)
  skipToToken(at, true)
  if (at.text.charCodeAt(at.pos) === Char.colon) return readFlowValue(at, entries, key, indent, depth)
  addEntry(at, entries, key, emptyScalar(toSourceLocation(at)), false)
}

/** The cursor stands on the colon. */
function readFlowValue(at: Cursor, entries: Entries, key: Node, indent: number, depth: number): void {
  at.pos += 1
  skipToToken(at, true)
  const code = at.text.charCodeAt(at.pos)
  const isEmpty = code === Char.comma || code === Char.bracketClose || code === Char.braceClose
  const value = isEmpty ? emptyScalar(toSourceLocation(at)) : readFlowNode(at, indent, depth)
  addEntry(at, entries, key, value, code === Char.asterisk)
}
