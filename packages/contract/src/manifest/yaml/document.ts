// One YAML document: at most one value, then nothing but comments and end markers.
import type { JsonObject, JsonValue } from '../json-text.ts'
import type { Budget } from '../manifest-limits.ts'
import { readBlockNode } from './block.ts'
import { Char } from './characters.ts'
import { type Cursor, isEndMarker, openCursor, skipToToken, syntaxErrorAt } from './cursor.ts'
import { toJsonValue } from './node.ts'
import { type Chunk, checkCharacters } from './split.ts'

export interface ReadDocument {
  readonly value: JsonValue
  /** Line of its first token. */
  readonly line: number
  readonly itemLines: ReadonlyMap<JsonObject, number>
  /** Parts of the value may be one and the same object, because aliases are not copied. */
  readonly isShared: boolean
}

/** Undefined for a document that is empty. */
export function readYamlDocument(chunk: Chunk, budget: Budget): ReadDocument | undefined {
  checkCharacters(chunk)
  const at = openCursor(chunk, budget)
  const aliasesBefore = budget.aliases
  skipToToken(at, false)
  const { line } = at
  if (at.column < 0) return finish(at, undefined)
  if (at.column === 0 && at.text.charCodeAt(at.pos) === Char.percent)
    throw syntaxErrorAt(at, 'a directive, which kubectl does not take either', 'remove it')
  const value = toJsonValue(at, readBlockNode(at, -1, 0, false))
  skipToToken(at, false)
  return finish(at, { value, line, itemLines: at.itemLines, isShared: budget.aliases > aliasesBefore })
}

/** kubectl passes over what follows an end marker; a text of which half is silently lost is refused here. */
function finish<T>(at: Cursor, document: T): T {
  while (at.column < 0 && isEndMarker(at)) {
    at.pos += 3
    at.fresh = false
    skipToToken(at, false)
  }
  if (at.column >= 0) throw syntaxErrorAt(at, 'text behind the end of a document', 'start the next document with a line of three dashes')
  return document
}
