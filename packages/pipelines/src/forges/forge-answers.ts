// Answers with entity tags, so that a repeated read asks only for what changed. Bounded; the one that was not used for longest is dropped.
// A key contains the credential, so only its hash is kept.
import { hash } from 'node:crypto'
import type { OutboundResponse } from '@brokkr/runtime/http-client/outbound-client.ts'

const ANSWERS_MAX = 1_000
const BYTES_MAX = 256 * 1024
/** Of all answers together. An answer that was dropped costs one unconditional request. */
const TOTAL_BYTES_MAX = 16 * 1024 * 1024

export interface KnownAnswer {
  readonly etag: string
  readonly answer: OutboundResponse
}

export class ForgeAnswers {
  readonly #known = new Map<string, KnownAnswer>()
  #bytes = 0

  /** Of all answers that are kept. */
  get bytes(): number {
    return this.#bytes
  }

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
    this.#drop(id)
    if (answer.status !== 200 || typeof etag !== 'string' || sizeOf(answer) > BYTES_MAX) return
    this.#known.set(id, { etag, answer })
    this.#bytes += sizeOf(answer)
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= ANSWERS_MAX && this.#bytes <= TOTAL_BYTES_MAX) return
      this.#drop(oldest)
    }
  }

  #drop(id: string): void {
    const known = this.#known.get(id)
    if (known === undefined) return
    this.#known.delete(id)
    this.#bytes -= sizeOf(known.answer)
  }
}

const sizeOf = ({ body, headers }: OutboundResponse): number => body.length + JSON.stringify(headers).length
