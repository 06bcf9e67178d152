// Reads the continue token from a page before it is decoded, and chooses the size of the next page. Pure.
import { textAt } from '../client/fields.ts'

const ITEMS = /"items":\s*\[/
const HEAD_MAX = 16 * 1024

/** Returns the continue token of a page; undefined at the end of the list. The server writes the list's metadata before its items, so the
 *  first kilobyte contains it; a page in another order is decoded as a whole. */
export function readContinueToken(text: string): string | undefined {
  return textAt(decodeHead(text.slice(0, HEAD_MAX))?.value ?? decodeWhole(text), 'metadata', 'continue') || undefined
}

/** Decodes the text before the first item, and returns where that item begins; undefined if the text has another order. */
export function decodeHead(start: string): { value: unknown; text: string; length: number } | undefined {
  const at = ITEMS.exec(start)
  if (!at) return undefined
  const text = start.slice(0, at.index)
  const value = decodeWhole(`${text}"items":[]}`)
  // These are not the list's own items, or its metadata follows them.
  return textAt(value, 'metadata', 'resourceVersion') === undefined ? undefined : { value, text, length: at.index + at[0].length }
}

/** Returns undefined for invalid JSON: the decoder of the page reports it. */
function decodeWhole(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const PAGE_SIZE = 500
const PAGE_SIZE_MAX = 2_500
const PAGE_CHARS = 1_000_000

/** Streamed lists are never in memory as a whole; their pages are limited by the time that one response may take. */
export const STREAM_PAGE = { objects: 10_000, chars: 16_000_000 }

/** Aims at a million characters per page: fewer requests for small objects, bounded memory for large ones. */
export function nextLimit(limit: number, chars: number, max = { objects: PAGE_SIZE_MAX, chars: PAGE_CHARS }): number {
  const fitting = Math.floor((limit * max.chars) / Math.max(1, chars))
  return Math.min(max.objects, Math.max(fitting, Math.min(limit, PAGE_SIZE)))
}

/** Size after a page that was too large or too slow. A page of thousands says nothing about the size of objects. */
export const smallerLimit = (limit: number): number => (limit > PAGE_SIZE ? PAGE_SIZE : Math.ceil(limit / 2))
