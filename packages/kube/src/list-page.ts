// What the text of a page tells before it is decoded: where the list goes on, and how large the next page should be. Pure.
import { textAt } from './fields.ts'

const ITEMS = /"items":\s*\[/
const HEAD_MAX = 16 * 1024

/** Where the next page begins; undefined at the end of the list. The server writes the list's own metadata before its items, so that
 *  the first kilobyte knows; whatever is written otherwise is decoded as a whole. */
export function continueOf(text: string): string | undefined {
  return textAt(headOf(text) ?? wholeOf(text), 'metadata', 'continue') || undefined
}

function headOf(text: string): unknown {
  const start = text.slice(0, HEAD_MAX)
  const at = ITEMS.exec(start)
  if (!at) return undefined
  const head = wholeOf(`${start.slice(0, at.index)}"items":[]}`)
  // Not the list's own items, or metadata that follows them.
  return textAt(head, 'metadata', 'resourceVersion') === undefined ? undefined : head
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

/** Pages of about a million characters: fewer questions for small objects, and what is in memory at once stays small for large ones. */
export function nextLimit(limit: number, chars: number): number {
  const fitting = Math.floor((limit * PAGE_CHARS) / Math.max(1, chars))
  return Math.min(PAGE_SIZE_MAX, Math.max(fitting, Math.min(limit, PAGE_SIZE)))
}
