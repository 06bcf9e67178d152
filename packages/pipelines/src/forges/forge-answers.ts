// Answers with entity tags, so that a repeated read asks only for what changed. Bounded; the one that was not used for longest is dropped.
// A key contains the credential, so only its hash is kept.
import { hash } from 'node:crypto'
import type { OutboundResponse } from '@brokkr/runtime/http-client/outbound-client.ts'

const ANSWERS_MAX = 1_000
const BYTES_MAX = 256 * 1024

export interface KnownAnswer {
  readonly etag: string
  readonly answer: OutboundResponse
}

export class ForgeAnswers {
  readonly #known = new Map<string, KnownAnswer>()

  get(key: string): KnownAnswer | undefined {
    const id = hash('sha256', key)
    const known = this.#known.get(id)
    if (known === undefined) return undefined
    this.#known.delete(id)
    this.#known.set(id, known)
    return known
  }

  /** Only a complete answer with a tag replaces the one before. */
  keep(key: string, answer: OutboundResponse): void {
    const id = hash('sha256', key)
    const { etag } = answer.headers
    this.#known.delete(id)
    if (answer.status !== 200 || typeof etag !== 'string' || answer.body.length > BYTES_MAX) return
    this.#known.set(id, { etag, answer })
    const [oldest] = this.#known.keys()
    if (this.#known.size > ANSWERS_MAX && oldest !== undefined) this.#known.delete(oldest)
  }
}
