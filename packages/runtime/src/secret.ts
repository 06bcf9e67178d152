// A text that must not be seen: prints *** wherever values are usually printed. `reveal()` is called in few files, and a
// test lists them.
import { createHash, timingSafeEqual } from 'node:crypto'

export class Secret {
  readonly #value: string

  constructor(value: string) {
    this.#value = value
  }

  reveal(): string {
    return this.#value
  }

  /** Takes the same time wherever the texts differ, and whatever their lengths. */
  equals(other: Secret): boolean {
    return timingSafeEqual(hashOf(this.#value), hashOf(other.#value))
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

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
