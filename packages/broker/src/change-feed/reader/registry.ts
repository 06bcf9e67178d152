// Maps scopes to the subscribers of this process. The publisher looks up each changed scope here, so its cost depends on the changed
// rows and the local subscribers, not on the number of agents.

/** A stack's scope is its bare id: agents subscribe to many stacks, and the string is shared with other state of the stream. */
export const scopeKey = (kind: string, id: string): string => (kind === 'stack' ? id : `${kind}:${id}`)

export class Registry<Subscriber extends object> {
  /** Most scopes have one subscriber, stored without a set: that halves the memory of an idle stream here. */
  readonly #subscribers = new Map<string, Subscriber | Set<Subscriber>>()
  readonly #scopes = new Map<Subscriber, Set<string>>()
  #changes = 0

  subscribe(subscriber: Subscriber, scope: string): void {
    const entry = this.#subscribers.get(scope)
    if (entry instanceof Set) entry.add(subscriber)
    else if (entry === undefined) this.#subscribers.set(scope, subscriber)
    else if (entry !== subscriber) this.#subscribers.set(scope, new Set([entry, subscriber]))
    const scopes = this.#scopes.get(subscriber)
    if (scopes !== undefined) return void scopes.add(scope)
    this.#scopes.set(subscriber, new Set([scope]))
    this.#changes += 1
  }

  unsubscribe(subscriber: Subscriber, scope: string): void {
    this.#drop(scope, subscriber)
    const scopes = this.#scopes.get(subscriber)
    scopes?.delete(scope)
    if (scopes?.size === 0) this.#forget(subscriber)
  }

  /** Removes a closed subscriber with all its scopes. */
  remove(subscriber: Subscriber): void {
    for (const scope of this.#scopes.get(subscriber) ?? []) this.#drop(scope, subscriber)
    this.#forget(subscriber)
  }

  getSubscribers(scope: string): ReadonlySet<Subscriber> {
    const entry = this.#subscribers.get(scope)
    if (entry === undefined) return noSubscribers
    return entry instanceof Set ? entry : new Set([entry])
  }

  /** A copy. */
  listScopes(subscriber: Subscriber): string[] {
    return [...(this.#scopes.get(subscriber) ?? [])]
  }

  has(subscriber: Subscriber): boolean {
    return this.#scopes.has(subscriber)
  }

  /** A copy, because closing a subscriber changes the registry. */
  listSubscribers(): Subscriber[] {
    return [...this.#scopes.keys()]
  }

  /** Not a copy: subscribers may be removed during the iteration, which a Map allows. */
  iterateSubscribers(): Iterable<Subscriber> {
    return this.#scopes.keys()
  }

  get size(): number {
    return this.#scopes.size
  }

  /** Counter that grows with each added or removed subscriber. */
  get subscriberChanges(): number {
    return this.#changes
  }

  #forget(subscriber: Subscriber): void {
    if (this.#scopes.delete(subscriber)) this.#changes += 1
  }

  #drop(scope: string, subscriber: Subscriber): void {
    const entry = this.#subscribers.get(scope)
    if (entry instanceof Set) entry.delete(subscriber)
    if (entry === subscriber || (entry instanceof Set && entry.size === 0)) this.#subscribers.delete(scope)
  }
}

const noSubscribers: ReadonlySet<never> = new Set()
