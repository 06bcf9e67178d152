// The cache of an informer: objects by key, and the changes that an update causes. Pure.
import { type KubeObject, nameKey } from '../client/object.ts'

export type Change<T> =
  | { type: 'added'; key: string; value: T }
  | { type: 'updated'; key: string; value: T; before: T }
  | { type: 'deleted'; key: string; value: T }

interface Entry<T> {
  uid: string
  version: string
  value: T
}

export class InformerCache<T> {
  #entries = new Map<string, Entry<T>>()
  readonly #project: (object: KubeObject) => T
  readonly #isKept: (object: KubeObject) => boolean

  /** `project` reduces an object to the parts worth keeping. An object that is filtered out counts as absent. */
  constructor(project: (object: KubeObject) => T, isKept: (object: KubeObject) => boolean = () => true) {
    this.#project = project
    this.#isKept = isKept
  }

  get size(): number {
    return this.#entries.size
  }

  get(key: string): T | undefined {
    return this.#entries.get(key)?.value
  }

  *entries(): Generator<[string, T]> {
    for (const [key, entry] of this.#entries) yield [key, entry.value]
  }

  /** Adds an object to a list that is not complete yet. */
  fill(list: Map<string, Entry<T>>, object: KubeObject): void {
    if (this.#isKept(object)) list.set(nameKey(object.metadata), this.#entryOf(object))
    else list.delete(nameKey(object.metadata))
  }

  /** Stores the current object. Another uid under the same name causes two changes: deleted and added. */
  put(object: KubeObject): Change<T>[] {
    if (!this.#isKept(object)) return this.remove(object)
    const key = nameKey(object.metadata)
    const entry = this.#entryOf(object)
    const previous = this.#entries.get(key)
    this.#entries.set(key, entry)
    return listChanges(key, previous, entry)
  }

  remove(object: KubeObject): Change<T>[] {
    const key = nameKey(object.metadata)
    const previous = this.#entries.get(key)
    this.#entries.delete(key)
    // The final state of the object may be newer than the cached one, so it is the one reported.
    return previous ? [{ type: 'deleted', key, value: this.#project(object) }] : []
  }

  /** Replaces the whole cache with a complete new list. Returns the previous content. */
  replaceAll(fresh: Map<string, Entry<T>>): Map<string, Entry<T>> {
    const before = this.#entries
    this.#entries = fresh
    return before
  }

  newList(): Map<string, Entry<T>> {
    return new Map()
  }

  #entryOf(object: KubeObject): Entry<T> {
    const { uid = '', resourceVersion = '' } = object.metadata
    return { uid, version: resourceVersion, value: this.#project(object) }
  }
}

/** Computes the changes of a new list, as an array. Not a generator: the first list is large, and at process start generator steps are not
 *  compiled yet and would take longer than the rest. */
export function forEachChange<T>(before: Map<string, Entry<T>>, now: Map<string, Entry<T>>, onChange: (change: Change<T>) => void): void {
  before.forEach(({ value }, key) => {
    if (!now.has(key)) onChange({ type: 'deleted', key, value })
  })
  now.forEach((entry, key) => {
    const previous = before.get(key)
    // The first list consists only of added objects.
    if (!previous) onChange({ type: 'added', key, value: entry.value })
    else for (const change of listChanges(key, previous, entry)) onChange(change)
  })
}

function listChanges<T>(key: string, previous: Entry<T> | undefined, now: Entry<T>): Change<T>[] {
  const added: Change<T> = { type: 'added', key, value: now.value }
  if (!previous) return [added]
  if (previous.uid !== now.uid) return [{ type: 'deleted', key, value: previous.value }, added]
  return previous.version === now.version ? [] : [{ type: 'updated', key, value: now.value, before: previous.value }]
}
