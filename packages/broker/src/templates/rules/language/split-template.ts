// Splits a template into texts, tags and outputs, and applies whitespace control: a dash inside a tag removes the whitespace next to it.
// Linear in the length of the template.
import type { Position } from './syntax-tree.ts'
import { TemplateSyntaxError } from './template-errors.ts'
import { type Source, type Token, tokenize } from './tokenize.ts'

export type Piece =
  /** `untrimmed`: the text as written, if the tag after it removes whitespace. */
  | { readonly is: 'text'; readonly text: string; readonly untrimmed?: string }
  | { readonly is: 'output' | 'tag'; readonly tokens: readonly Token[]; readonly at: Position }

interface Cut {
  readonly piece: Piece | null
  readonly end: number
  readonly trimsBefore: boolean
  readonly trimsAfter: boolean
}

export function splitTemplate(source: Source): Piece[] {
  const { text } = source
  const pieces: Piece[] = []
  let isTrimmed = false
  let at = 0
  while (at < text.length) {
    const open = findOpen(text, at)
    const cut = open === text.length ? null : readCut(source, open)
    const plain = text.slice(at, open)
    const trimmed = isTrimmed ? trimStart(plain) : plain
    if (cut?.trimsBefore) pieces.push({ is: 'text', text: trimEnd(trimmed), untrimmed: trimmed })
    else pieces.push({ is: 'text', text: trimmed })
    if (cut === null) break
    if (cut.piece !== null) pieces.push(cut.piece)
    isTrimmed = cut.trimsAfter
    at = cut.end
  }
  return pieces.filter((piece) => piece.is !== 'text' || (piece.untrimmed ?? piece.text) !== '')
}

function findOpen(text: string, from: number): number {
  for (let at = text.indexOf('{', from); at !== -1; at = text.indexOf('{', at + 1)) {
    const next = text[at + 1]
    if (next === '{' || next === '%' || next === '#') return at
  }
  return text.length
}

function readCut(source: Source, open: number): Cut {
  const kind = source.text[open + 1]
  if (kind === '#') return readComment(source, open)
  const trimsBefore = source.text[open + 2] === '-'
  const close = kind === '{' ? '}}' : '%}'
  const { tokens, end } = tokenize(source, open + (trimsBefore ? 3 : 2), close)
  const trimsAfter = source.text[end] === '-'
  const after = end + (trimsAfter ? 3 : 2)
  if (kind === '%' && isRaw(tokens)) return readRaw(source, { open, from: after, trimsBefore, trimsInside: trimsAfter })
  const piece: Piece = { is: kind === '{' ? 'output' : 'tag', tokens, at: source.locate(open) }
  return { piece, end: after, trimsBefore, trimsAfter }
}

function readComment(source: Source, open: number): Cut {
  const { text } = source
  const end = text.indexOf('#}', open + 2)
  if (end === -1) throw new TemplateSyntaxError('this comment is not closed by #}', source.locate(open))
  const trimsBefore = text[open + 2] === '-'
  return { piece: null, end: end + 2, trimsBefore, trimsAfter: text[end - 1] === '-' && end - 1 > open + 2 }
}

function isRaw(tokens: readonly Token[]): boolean {
  const [first, second] = tokens
  return first?.is === 'path' && first.path.name === 'raw' && first.path.segments.length === 0 && second?.is === 'end'
}

const endRaw = /\{%(-?)[ \t\r\n]*endraw[ \t\r\n]*(-?)%\}/y

function readRaw(
  { text, locate }: Source,
  { open, from, trimsBefore, trimsInside }: { open: number; from: number; trimsBefore: boolean; trimsInside: boolean },
): Cut {
  for (let at = text.indexOf('{%', from); at !== -1; at = text.indexOf('{%', at + 2)) {
    endRaw.lastIndex = at
    const match = endRaw.exec(text)
    if (match === null) continue
    const inside = trimsInside ? trimStart(text.slice(from, at)) : text.slice(from, at)
    const piece: Piece = { is: 'text', text: match[1] === '-' ? trimEnd(inside) : inside }
    return { piece, end: endRaw.lastIndex, trimsBefore, trimsAfter: match[2] === '-' }
  }
  throw new TemplateSyntaxError('this raw section is not closed by {% endraw %}', locate(open))
}

const whitespace = /^\p{White_Space}$/u

/** Unicode whitespace; a byte order mark is none. */
export function trimStart(text: string): string {
  let at = 0
  while (at < text.length && whitespace.test(text.charAt(at))) at += 1
  return text.slice(at)
}

export function trimEnd(text: string): string {
  let at = text.length
  while (at > 0 && whitespace.test(text.charAt(at - 1))) at -= 1
  return text.slice(0, at)
}
