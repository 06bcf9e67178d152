// A secret text: prints *** instead of its value. Only few files may call `reveal()`; a test lists them.
import { createHash, timingSafeEqual } from 'node:crypto'

export class Secret {
  readonly #value: string

  constructor(value: string) {
    this.#value = value
  }

  reveal(): string {
    return this.#value
  }

  /** Constant time, independent of content and length. */
  equals(other: Secret): boolean {
    return timingSafeEqual(hashText(this.#value), hashText(other.#value))
  }

  toString(): string {
    return mask
  }

  toJSON(): string {
    return mask
  }

  [Symbol.toPrimitive](): string {
    return mask
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return mask
  }
}

export const mask = '***'

function hashText(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
