// Who follows what in this process: scope → followers. The reader looks every changed scope up here, so its cost is rows
// plus interested local streams, whatever the size of the fleet.

/** A stack is known by its id alone: agents follow many, and the string is shared with what else their stream keeps of it. */
export const scopeKey = (kind: string, id: string): string => (kind === 'stack' ? id : `${kind}:${id}`)

export class Registry<Follower extends object> {
  /** Most scopes have one follower, kept without a set around it: that halves what an idle stream costs here. */
  readonly #followers = new Map<string, Follower | Set<Follower>>()
  readonly #scopes = new Map<Follower, Set<string>>()
  #changes = 0

  subscribe(follower: Follower, scope: string): void {
    const found = this.#followers.get(scope)
    if (found instanceof Set) found.add(follower)
    else if (found === undefined) this.#followers.set(scope, follower)
    else if (found !== follower) this.#followers.set(scope, new Set([found, follower]))
    const scopes = this.#scopes.get(follower)
    if (scopes !== undefined) return void scopes.add(scope)
    this.#scopes.set(follower, new Set([scope]))
    this.#changes += 1
  }

  unsubscribe(follower: Follower, scope: string): void {
    this.#drop(scope, follower)
    const scopes = this.#scopes.get(follower)
    scopes?.delete(scope)
    if (scopes?.size === 0) this.#forget(follower)
  }

  /** Forgets a follower that has gone. */
  remove(follower: Follower): void {
    for (const scope of this.#scopes.get(follower) ?? []) this.#drop(scope, follower)
    this.#forget(follower)
  }

  of(scope: string): ReadonlySet<Follower> {
    const found = this.#followers.get(scope)
    if (found === undefined) return nobody
    return found instanceof Set ? found : new Set([found])
  }

  /** A copy. */
  scopesOf(follower: Follower): string[] {
    return [...(this.#scopes.get(follower) ?? [])]
  }

  has(follower: Follower): boolean {
    return this.#scopes.has(follower)
  }

  /** A copy: closing a follower changes the registry. */
  all(): Follower[] {
    return [...this.#scopes.keys()]
  }

  /** Without a copy. A follower that ends meanwhile may take itself out: a map goes on behind what was deleted. */
  followers(): Iterable<Follower> {
    return this.#scopes.keys()
  }

  get size(): number {
    return this.#scopes.size
  }

  /** Differs when a follower came or went since it was last asked for. */
  get changes(): number {
    return this.#changes
  }

  #forget(follower: Follower): void {
    if (this.#scopes.delete(follower)) this.#changes += 1
  }

  #drop(scope: string, follower: Follower): void {
    const found = this.#followers.get(scope)
    if (found instanceof Set) found.delete(follower)
    if (found === follower || (found instanceof Set && found.size === 0)) this.#followers.delete(scope)
  }
}

const nobody: ReadonlySet<never> = new Set()
