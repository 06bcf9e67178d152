// Prints paths in one form per meaning: the text parses to the same segments, alone and within a condition.
import { printLiteral, printQuoted } from './literal.ts'
import type { Segment } from './path.ts'

export function printPath(segments: readonly Segment[]): string {
  const text = segments.map(printSegment).join('')
  if (segments.length === 0) return '$'
  // A bracket cannot come first, and a first key `$` would be the root.
  return text.startsWith('.') ? text.slice(1) : `$${text}`
}

/** Each segment with its separator. */
function printSegment(segment: Segment): string {
  if (segment.kind === 'key') return needsQuotes(segment.key) ? `[${printQuoted(segment.key)}]` : `.${escapeKey(segment.key)}`
  if (segment.kind === 'index') return `.${segment.key}`
  if (segment.kind === 'each') return '.#'
  if (segment.kind === 'wildcard') return `.${printGlob(segment.glob)}`
  const { query } = segment
  const from = query.segments.length === 0 ? '' : printPath(query.segments)
  return `.#(${from}${query.operator}${printLiteral(query.literal)})${query.all ? '#' : ''}`
}

/** The empty key, a key of digits (unquoted it would be an index), and unprintable characters. */
const needsQuotes = (key: string): boolean => key === '' || /^[0-9]{1,9}$/.test(key) || /\p{Cc}|\p{Surrogate}/u.test(key)

/** Escapes of the glob stay; its other characters are those of a key. */
const printGlob = (glob: string): string =>
  glob.replace(/\\.|[^*?]/gsu, (part) => (part.startsWith('\\') ? part : /\p{Cc}/u.test(part) ? `\\${part}` : escapeKey(part)))

const escapeKey = (key: string): string => key.replace(/[.*?#|[\](){}:\\'"=!<>&,%@$ ]/g, '\\$&')
