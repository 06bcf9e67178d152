// The PAK of all requests to the broker: configured by the operator, whose file can change at any time, or created by the agent and
// stored in the cluster.
import type { StoredPak } from './own-pak.ts'

export class AgentPaks {
  #configured: string | null
  #stored: StoredPak | null = null
  readonly #listeners = new Set<() => void>()

  constructor(configured: string | null) {
    this.#configured = configured
  }

  /** Called when another PAK is used from now on. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  get current(): string {
    const pak = this.#configured ?? this.#stored?.pak
    if (pak === undefined) throw new Error('the agent has no PAK yet')
    return pak
  }

  get hasPak(): boolean {
    return this.#configured !== null || this.#stored !== null
  }

  /** Null if the operator configured the PAK, which the agent does not renew. */
  get storedPak(): StoredPak | null {
    return this.#configured === null ? this.#stored : null
  }

  setConfigured(pak: string | null): void {
    if (pak === null || pak === this.#configured) return
    this.#configured = pak
    this.#notify()
  }

  setStored(stored: StoredPak): void {
    const isNew = stored.pak !== this.#stored?.pak
    this.#stored = stored
    if (isNew) this.#notify()
  }

  #notify(): void {
    for (const listener of this.#listeners) listener()
  }
}
