// Block collections, told by indentation: the structure of nearly every manifest. Nodes are read from the token on which the cursor
// stands; `indent` is the column of the collection around them (-1 for the document), `depth` counts the collections around them.
import type { JsonValue } from '../json-text.ts'
import { ManifestError } from '../manifest-error.ts'
import { readBlockScalar } from './block-scalar.ts'
import { Char } from './characters.ts'
import { type Cursor, enterCollection, isIndicator, skipToToken, syntaxErrorAt, toSourceLocation } from './cursor.ts'
import { addEntry, type Entries, openEntries } from './entries.ts'
import { atKeyColon, readAtom } from './flow.ts'
import { emptyScalar, type Node, toJsonValue } from './node.ts'
import { joinProperties, noProperties, type Properties, readProperties, withProperties } from './properties.ts'

/** `mayStay`: a list may start in the very column of the map whose value it is. */
export function readBlockNode(at: Cursor, indent: number, depth: number, mayStay: boolean): Node {
  let outer = noProperties
  for (;;) {
    const start = { pos: at.pos, line: at.line, column: at.column, fresh: at.fresh }
    const inner = readProperties(at, depth, false)
    if (at.line === start.line) return readContent(at, { indent, depth, outer, inner, start })
    // Properties alone on their line belong to the next node, or to an empty node if none follows.
    outer = joinProperties(at, outer, inner)
    const goesOn = at.column > indent || (mayStay && at.column === indent && isIndicator(at, Char.dash))
    if (!goesOn) return withProperties(at, outer, emptyScalar(toSourceLocation(at)), depth)
  }
}

interface Content {
  readonly indent: number
  readonly depth: number
  /** On lines before this one; on this line, where they belong to the first key if there is one. */
  readonly outer: Properties
  readonly inner: Properties
  readonly start: { readonly pos: number; readonly line: number; readonly column: number; readonly fresh: boolean }
}

function readContent(at: Cursor, { indent, depth, outer, inner, start }: Content): Node {
  const code = at.text.charCodeAt(at.pos)
  if (isIndicator(at, Char.dash)) return withProperties(at, outer, readSequence(at, at.column, depth + 1), depth)
  if (isIndicator(at, Char.question)) return withProperties(at, outer, readMapping(at, at.column, depth + 1, null), depth)
  if (code === Char.asterisk && inner !== noProperties) throw syntaxErrorAt(at, 'an alias has an anchor or a tag', 'remove it')
  const atom = readScalarOrFlow(at, code, indent, depth)
  if (start.fresh && atKeyColon(at, start, false)) {
    const key = withProperties(at, inner, atom, depth)
    return withProperties(at, outer, readMapping(at, start.column, depth + 1, key), depth)
  }
  if (code === Char.asterisk && outer !== noProperties) throw syntaxErrorAt(at, 'an alias has an anchor or a tag', 'remove it')
  return withProperties(at, joinProperties(at, outer, inner), atom, depth)
}

function readScalarOrFlow(at: Cursor, code: number, indent: number, depth: number): Node {
  if (code !== Char.bar && code !== Char.greater) return readAtom(at, { indent, inFlow: false }, depth)
  const place = toSourceLocation(at)
  return { kind: 'scalar', text: readBlockScalar(at, indent), plain: false, tag: null, line: place.line, column: place.column }
}

function readSequence(at: Cursor, column: number, depth: number): Node {
  const place = toSourceLocation(at)
  enterCollection(at, depth)
  const value: JsonValue[] = []
  while (at.column === column && isIndicator(at, Char.dash)) {
    if (!at.fresh) throw syntaxErrorAt(at, 'an item of a list cannot start there', 'put it on the next line')
    at.pos += 1
    at.fresh = true
    skipToToken(at, false)
    const item = at.column > column ? readBlockNode(at, column, depth, false) : emptyScalar(toSourceLocation(at))
    value.push(toJsonValue(at, item))
    if (item.kind === 'collection' && !Array.isArray(item.value)) at.itemLines.set(item.value, item.line)
    skipToToken(at, false)
  }
  if (at.column > column) throw misplaced(at)
  return { kind: 'collection', value, line: place.line, column: place.column }
}

/** `firstKey` has been read already, with the cursor on its colon, because only the colon told that it is one. */
function readMapping(at: Cursor, column: number, depth: number, firstKey: Node | null): Node {
  const place = firstKey ?? toSourceLocation(at)
  enterCollection(at, depth)
  const entries = openEntries()
  if (firstKey !== null) readValue(at, entries, firstKey, { column, depth, fresh: false })
  else readEntry(at, entries, column, depth)
  skipToToken(at, false)
  while (at.column === column) {
    readEntry(at, entries, column, depth)
    skipToToken(at, false)
  }
  if (at.column > column) throw misplaced(at)
  return { kind: 'collection', value: entries.map, line: place.line, column: place.column }
}

const misplaced = (at: Cursor) =>
  syntaxErrorAt(at, 'text that belongs to nothing before it', 'check the indentation, or put the value in quotes')

function readEntry(at: Cursor, entries: Entries, column: number, depth: number): void {
  // Behind the last line of a quoted text the column may be right by chance.
  if (!at.fresh) throw misplaced(at)
  if (isIndicator(at, Char.question)) return readExplicitEntry(at, entries, column, depth)
  const start = { pos: at.pos, line: at.line }
  const properties = readProperties(at, depth, false)
  const isAliasWithProperties = properties !== noProperties && at.text.charCodeAt(at.pos) === Char.asterisk
  const key = withProperties(at, properties, readAtom(at, { indent: column, inFlow: false }, depth), depth)
  if (isAliasWithProperties || !atKeyColon(at, start, false))
    throw syntaxErrorAt(at, 'a key without a colon and a space behind it', 'add them')
  readValue(at, entries, key, { column, depth, fresh: false })
}

function readExplicitEntry(at: Cursor, entries: Entries, column: number, depth: number): void {
  const place = toSourceLocation(at)
  at.pos += 1
  at.fresh = true
  skipToToken(at, false)
  if (at.column <= column)
    throw new ManifestError('bad_key', place, { what: 'a key is empty or a list', todo: 'write a text after the question mark' })
  const key = readBlockNode(at, column, depth, true)
  skipToToken(at, false)
  if (at.fresh && at.column === column && isIndicator(at, Char.colon)) return readValue(at, entries, key, { column, depth, fresh: true })
  addEntry(at, entries, key, emptyScalar(toSourceLocation(at)), false)
}

/** The cursor stands on the colon. `fresh`: the value may be a block collection on the same line. */
function readValue(
  at: Cursor,
  entries: Entries,
  key: Node,
  { column, depth, fresh }: { column: number; depth: number; fresh: boolean },
): void {
  at.pos += 1
  at.fresh = fresh
  skipToToken(at, false)
  const isAlias = at.text.charCodeAt(at.pos) === Char.asterisk
  if (at.column > column) return addEntry(at, entries, key, readBlockNode(at, column, depth, true), isAlias)
  const staysInColumn = at.column === column && isIndicator(at, Char.dash)
  addEntry(at, entries, key, staysInColumn ? readSequence(at, column, depth + 1) : emptyScalar(toSourceLocation(at)), false)
}
