// Forms in which a manifest is stored: prepared bytes of large ones, and encryption contexts.
import { createHash } from 'node:crypto'

// A large manifest in the forms that its row and its response need. A worker prepares them while it parses the body, because each form takes
// tens of milliseconds.

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

// Encryption contexts of manifests and parameters, which bind the ciphertext to its row.
export const toManifestContext = (id: string) => ({ table: 'deployment_objects', column: 'yaml_sealed', id })

/** Encryption context of the parameters that a manifest was rendered with. */
export const toParametersContext = (id: string) => ({ table: 'rendered_deployment_objects', column: 'parameters_sealed', id })
