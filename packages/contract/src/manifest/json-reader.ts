// Documents written as JSON. Not JSON.parse, because positions, duplicate keys, 64-bit integers and the limits matter here too.
import { emptyObject, type JsonObject, type JsonValue } from './json-text.ts'
import { ManifestError, type SourceLocation, syntaxError } from './manifest-error.ts'
import { type Budget, checkDepth, spendNodes } from './manifest-limits.ts'
import type { ReadDocument } from './yaml/document.ts'
import { duplicateKey } from './yaml/entries.ts'
import type { Chunk } from './yaml/split.ts'

interface JsonCursor {
  readonly text: string
  readonly budget: Budget
  readonly itemLines: Map<JsonObject, number>
  pos: number
  line: number
  lineStart: number
}

/** Never leaves this file. */
class NotJson extends Error {}

/** One JSON object, at the start of a manifest also several in a row. Null if the text is anything else; what it spent is given back. */
export function readJsonDocuments(chunk: Chunk, budget: Budget): ReadDocument[] | null {
  const nodesBefore = budget.nodes
  try {
    const documents = readObjects({ text: chunk.text, budget, itemLines: new Map(), pos: 0, line: chunk.line, lineStart: 0 })
    if (documents.length > 1 && !chunk.isFirst) throw new NotJson()
    return documents
  } catch (error) {
    if (!(error instanceof NotJson)) throw error
    budget.nodes = nodesBefore
    return null
  }
}

function readObjects(at: JsonCursor): ReadDocument[] {
  const documents: ReadDocument[] = []
  for (skipSpace(at); at.pos < at.text.length; skipSpace(at)) {
    if (at.text.charAt(at.pos) !== '{') throw new NotJson()
    const { line } = at
    documents.push({ value: readValue(at, 1), line, itemLines: at.itemLines, isShared: false })
  }
  return documents
}

function skipSpace(at: JsonCursor): void {
  for (;;) {
    const character = at.text.charAt(at.pos)
    if (character !== ' ' && character !== '\n' && character !== '\t' && character !== '\r') return
    at.pos += 1
    if (character !== '\n') continue
    at.line += 1
    at.lineStart = at.pos
  }
}

const toSourceLocation = (at: JsonCursor): SourceLocation => ({ line: at.line, column: at.pos - at.lineStart + 1 })

/** `depth` counts the value itself if it is a map or list. */
function readValue(at: JsonCursor, depth: number): JsonValue {
  const character = at.text.charAt(at.pos)
  spendNodes(at.budget, 1, toSourceLocation(at))
  if (character === '{') return readObject(at, depth)
  if (character === '[') return readArray(at, depth)
  if (character === '"') return readString(at)
  return readNumberOrWord(at)
}

function readObject(at: JsonCursor, depth: number): JsonObject {
  const object = emptyObject()
  readItems(at, '}', depth, () => {
    const place = toSourceLocation(at)
    const key = readString(at)
    if (key in object) throw duplicateKey(place)
    skipSpace(at)
    take(at, ':')
    skipSpace(at)
    object[key] = readValue(at, depth + 1)
  })
  return object
}

function readArray(at: JsonCursor, depth: number): JsonValue[] {
  const array: JsonValue[] = []
  readItems(at, ']', depth, () => {
    const { line } = at
    const item = readValue(at, depth + 1)
    array.push(item)
    if (typeof item === 'object' && item !== null && !Array.isArray(item)) at.itemLines.set(item, line)
  })
  return array
}

function readItems(at: JsonCursor, close: string, depth: number, readItem: () => void): void {
  checkDepth(at.budget, depth, toSourceLocation(at))
  at.pos += 1
  skipSpace(at)
  if (at.text.charAt(at.pos) !== close) {
    for (;;) {
      readItem()
      skipSpace(at)
      if (at.text.charAt(at.pos) === close) break
      take(at, ',')
      skipSpace(at)
    }
  }
  at.pos += 1
}

function take(at: JsonCursor, character: string): void {
  if (at.text.charAt(at.pos) !== character) throw new NotJson()
  at.pos += 1
}

function readString(at: JsonCursor): string {
  const place = toSourceLocation(at)
  take(at, '"')
  const start = at.pos
  let hasEscapes = false
  for (let code = at.text.charCodeAt(at.pos); code !== doubleQuote; code = at.text.charCodeAt(++at.pos)) {
    if (!(code >= firstPrintable)) throw new NotJson()
    if (code !== backslash) continue
    hasEscapes = true
    at.pos += 1
  }
  at.pos += 1
  const text = hasEscapes ? parseString(at.text.slice(start - 1, at.pos)) : at.text.slice(start, at.pos - 1)
  if (text.isWellFormed()) return text
  throw syntaxError(place, 'half of a surrogate pair in a text', 'write both halves')
}

const doubleQuote = 34
const backslash = 92
const firstPrintable = 32

/** The grammar of escapes is JSON's own. */
function parseString(source: string): string {
  try {
    return JSON.parse(source) as string
  } catch {
    throw new NotJson()
  }
}

const scalarPattern = /true\b|false\b|null\b|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y
const words: ReadonlyMap<string, JsonValue> = new Map([
  ['true', true],
  ['false', false],
  ['null', null],
])
const integerPattern = /^-?[0-9]{16,19}$/

function readNumberOrWord(at: JsonCursor): JsonValue {
  const place = toSourceLocation(at)
  const source = match(at, scalarPattern)
  const word = words.get(source)
  if (word !== undefined) return word
  const number = Number(source)
  if (!Number.isFinite(number))
    throw new ManifestError('bad_number', place, { what: 'a number is too large', todo: 'write a smaller one, or a text in quotes' })
  if (!Number.isSafeInteger(number) && integerPattern.test(source)) return exactInteger(BigInt(source))
  return number === 0 ? 0 : number
}

/** What int64 cannot hold is handed on as a double, as kubectl does. */
const exactInteger = (value: bigint): JsonValue => (BigInt.asIntN(64, value) === value ? value : Number(value))

function match(at: JsonCursor, pattern: RegExp): string {
  pattern.lastIndex = at.pos
  const found = pattern.exec(at.text)?.[0]
  if (found === undefined) throw new NotJson()
  at.pos += found.length
  return found
}
