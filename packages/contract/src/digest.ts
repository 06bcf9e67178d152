// The text whose SHA-256 is the digest of a wanted set. Pure: broker and agent hash the same lines, each from what it
// holds itself, so that equal digests mean equal sets.

export interface DigestLine {
  readonly stackId: string
  readonly rev: number
  readonly object: { readonly id: string; readonly checksum: string } | null
}

/** One line per stack, sorted by bytes (which is uuid order for lower-case ids), each ended by a line feed. */
export function digestText(lines: Iterable<DigestLine>): string {
  return Array.from(lines, lineOf)
    .toSorted((a, b) => (a < b ? -1 : 1))
    .join('')
}

const lineOf = ({ stackId, rev, object }: DigestLine): string =>
  `${stackId} ${rev} ${object === null ? '- -' : `${object.id} ${object.checksum}`}\n`
