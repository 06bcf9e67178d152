// Builds the text whose SHA-256 is the digest of a desired state. Broker and agent build it from their own data, so equal digests
// mean equal states. Pure.

export interface DigestLine {
  readonly stackId: string
  readonly rev: number
  readonly object: { readonly id: string; readonly checksum: string } | null
}

/** One line per stack, sorted by bytes (which is uuid order for lower-case ids), each ended by a line feed. */
export function digestText(lines: Iterable<DigestLine>): string {
  return Array.from(lines, toDigestLine)
    .toSorted((a, b) => (a < b ? -1 : 1))
    .join('')
}

const toDigestLine = ({ stackId, rev, object }: DigestLine): string =>
  `${stackId} ${rev} ${object === null ? '- -' : `${object.id} ${object.checksum}`}\n`
