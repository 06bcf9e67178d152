// Position in the text of a path or condition, and basic parser functions. Columns count characters from 1.

export interface Cursor {
  readonly text: string
  pos: number
  /** Open parentheses, negations and queries. */
  depth: number
}

/** Both languages are small: longer or deeper text is a mistake or an attack. */
const languageLimits = { bytes: 4096, depth: 32 } as const

export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly column: number; readonly reason: string }

/** Never thrown out of `parse`. */
class Unexpected extends Error {
  readonly pos: number
  constructor(pos: number, reason: string) {
    super(reason)
    this.pos = pos
  }
}

/** Parses the whole text: a remainder is an error. */
export function parse<T>(text: string, read: (cursor: Cursor) => T): Parsed<T> {
  const cursor: Cursor = { text, pos: 0, depth: 0 }
  try {
    checkLength(text)
    const value = read(cursor)
    if (cursor.pos < text.length) fail(cursor, 'expected the end')
    return { ok: true, value }
  } catch (error) {
    if (!(error instanceof Unexpected)) throw error
    return { ok: false, column: Array.from(text.slice(0, error.pos)).length + 1, reason: error.message }
  }
}

function checkLength(text: string): void {
  // A UTF-16 unit needs at most three bytes, so short texts are not counted.
  if (text.length * 3 <= languageLimits.bytes) return
  if (text.length > languageLimits.bytes || new TextEncoder().encode(text).length > languageLimits.bytes)
    throw new Unexpected(Math.min(text.length, languageLimits.bytes), `expected the end: at most ${languageLimits.bytes} bytes are allowed`)
}

export function fail(cursor: Cursor, reason: string, pos = cursor.pos): never {
  throw new Unexpected(pos, reason)
}

export const peek = (cursor: Cursor): string => cursor.text.charAt(cursor.pos)

export const startsWith = (cursor: Cursor, word: string): boolean => cursor.text.startsWith(word, cursor.pos)

/** Advances if the text continues with `word`. */
export function take(cursor: Cursor, word: string): boolean {
  if (!startsWith(cursor, word)) return false
  cursor.pos += word.length
  return true
}

export function expect(cursor: Cursor, word: string): void {
  if (!take(cursor, word)) fail(cursor, `expected "${word}"`)
}

export const isBlank = (character: string): boolean => character === ' ' || character === '\t' || character === '\n' || character === '\r'

export function skipBlanks(cursor: Cursor): void {
  while (isBlank(peek(cursor))) cursor.pos += 1
}

/** Increases the depth while `read` runs. */
export function nested<T>(cursor: Cursor, read: () => T): T {
  cursor.depth += 1
  if (cursor.depth > languageLimits.depth) fail(cursor, `expected at most ${languageLimits.depth} levels of nesting`)
  const value = read()
  cursor.depth -= 1
  return value
}
