// Who follows what in this process: scope → followers. The reader looks every changed scope up here, so its cost is rows
// plus interested local streams, whatever the size of the fleet.

export const scopeKey = (kind: string, id: string): string => `${kind}:${id}`

export class Registry<Follower extends object> {
  readonly #followers = new Map<string, Set<Follower>>()
  readonly #scopes = new Map<Follower, Set<string>>()

  subscribe(follower: Follower, scope: string): void {
    entry(this.#followers, scope).add(follower)
    entry(this.#scopes, follower).add(scope)
  }

  unsubscribe(follower: Follower, scope: string): void {
    drop(this.#followers, scope, follower)
    drop(this.#scopes, follower, scope)
  }

  /** Forgets a follower that has gone. */
  remove(follower: Follower): void {
    for (const scope of this.#scopes.get(follower) ?? []) drop(this.#followers, scope, follower)
    this.#scopes.delete(follower)
  }

  of(scope: string): ReadonlySet<Follower> {
    return this.#followers.get(scope) ?? nobody
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

  get size(): number {
    return this.#scopes.size
  }
}

const nobody: ReadonlySet<never> = new Set()

function entry<K, V>(map: Map<K, Set<V>>, key: K): Set<V> {
  const found = map.get(key)
  if (found !== undefined) return found
  const made = new Set<V>()
  map.set(key, made)
  return made
}

function drop<K, V>(map: Map<K, Set<V>>, key: K, value: V): void {
  const found = map.get(key)
  found?.delete(value)
  if (found?.size === 0) map.delete(key)
}
