// A large manifest in the forms that its row and its response need. A worker prepares them while it parses the body, because each form takes
// tens of milliseconds.
import { createHash } from 'node:crypto'

export interface LargeManifest {
  readonly text: string
  /** UTF-8, the input of sealing. */
  readonly bytes: Uint8Array<ArrayBuffer>
  /** SHA-256 of `bytes` in hex. */
  readonly checksum: string
  /** JSON string in UTF-8. */
  readonly json: Uint8Array<ArrayBuffer>
}

/** The arrays have their own memory, so a worker can transfer them. */
export function prepareLargeManifest(text: string): LargeManifest {
  const encoder = new TextEncoder()
  const bytes = encoder.encode(text)
  return { text, bytes, checksum: createHash('sha256').update(bytes).digest('hex'), json: encoder.encode(JSON.stringify(text)) }
}
