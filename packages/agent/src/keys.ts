// The key that every request to the broker carries: given by the operator, whose file may change at any time, or made by the
// agent itself and kept in the cluster. One place that knows which of them counts now.
import type { KeptKey } from './own-key.ts'

export class Keys {
  #given: string | null
  #kept: KeptKey | null = null
  readonly #listeners = new Set<() => void>()

  constructor(given: string | null) {
    this.#given = given
  }

  /** Called when another key counts from now on. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  get current(): string {
    const pak = this.#given ?? this.#kept?.pak
    if (pak === undefined) throw new Error('there is no key yet')
    return pak
  }

  get has(): boolean {
    return this.#given !== null || this.#kept !== null
  }

  /** Null: the operator gave one, so it is not ours to renew. */
  get kept(): KeptKey | null {
    return this.#given === null ? this.#kept : null
  }

  give(pak: string | null): void {
    if (pak === null || pak === this.#given) return
    this.#given = pak
    this.#tell()
  }

  keep(kept: KeptKey): void {
    const isNew = kept.pak !== this.#kept?.pak
    this.#kept = kept
    if (isNew) this.#tell()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}
