// What the text of a page tells before it is decoded: where the list goes on, and how large the next page should be. Pure.
import { textAt } from './fields.ts'

const ITEMS = /"items":\s*\[/
const HEAD_MAX = 16 * 1024

/** Where the next page begins; undefined at the end of the list. The server writes the list's own metadata before its items, so that
 *  the first kilobyte knows; whatever is written otherwise is decoded as a whole. */
export function continueOf(text: string): string | undefined {
  return textAt(headOf(text.slice(0, HEAD_MAX))?.value ?? wholeOf(text), 'metadata', 'continue') || undefined
}

/** What stands before the first item, decoded, and where that item begins; undefined where the text does not tell. */
export function headOf(start: string): { value: unknown; text: string; length: number } | undefined {
  const at = ITEMS.exec(start)
  if (!at) return undefined
  const text = start.slice(0, at.index)
  const value = wholeOf(`${text}"items":[]}`)
  // Not the list's own items, or metadata that follows them.
  return textAt(value, 'metadata', 'resourceVersion') === undefined ? undefined : { value, text, length: at.index + at[0].length }
}

/** Undefined for what is not JSON: the decoder of the page says so. */
function wholeOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const PAGE_SIZE = 500
const PAGE_SIZE_MAX = 2_500
const PAGE_CHARS = 1_000_000

/** Lists that are decoded as they come are never in memory as a whole; their pages are bounded by the time that one answer may take. */
export const STREAM_PAGE = { objects: 10_000, chars: 16_000_000 }

/** Pages of about a million characters: fewer questions for small objects, and what is in memory at once stays small for large ones. */
export function nextLimit(limit: number, chars: number, max = { objects: PAGE_SIZE_MAX, chars: PAGE_CHARS }): number {
  const fitting = Math.floor((limit * max.chars) / Math.max(1, chars))
  return Math.min(max.objects, Math.max(fitting, Math.min(limit, PAGE_SIZE)))
}

/** After a page that was too large, or too slow: whoever asked for thousands knows nothing of their size yet. */
export const smallerLimit = (limit: number): number => (limit > PAGE_SIZE ? PAGE_SIZE : Math.ceil(limit / 2))
