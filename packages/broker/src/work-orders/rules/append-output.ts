// The stored end of an attempt's output after one more piece. Pure. Offsets count bytes of the whole output of the attempt.
export interface StoredOutput {
  readonly attempt: number
  /** Offset of the first stored byte, and the offset after the last one. */
  readonly start: number
  readonly end: number
  readonly text: string
}
export interface OutputPiece {
  readonly attempt: number
  readonly offset: number
  readonly text: string
}

export const outputBytesMax = 256 * 1024

/** null: the piece brings nothing new. A repeated piece is skipped; after a gap, or with a new attempt, the stored text starts anew. */
export function appendOutput(stored: StoredOutput | null, { attempt, offset, text }: OutputPiece): StoredOutput | null {
  const bytes = Buffer.from(text)
  const end = offset + bytes.length
  const isFollowing = stored !== null && stored.attempt === attempt && offset <= stored.end
  if (!isFollowing) return bytes.length === 0 ? null : keepEnd(bytes, { attempt, end })
  if (end <= stored.end) return null
  return keepEnd(Buffer.concat([Buffer.from(stored.text), bytes.subarray(stored.end - offset)]), { attempt, end })
}

/** Keeps the last bytes, from the start of a character. */
function keepEnd(bytes: Buffer, { attempt, end }: { attempt: number; end: number }): StoredOutput {
  let from = Math.max(0, bytes.length - outputBytesMax)
  while (from > 0 && ((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1
  const text = bytes.toString('utf8', from)
  return { attempt, start: Math.max(0, end - Buffer.byteLength(text)), end, text }
}
