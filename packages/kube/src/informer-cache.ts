// What an informer knows: objects by key, and what changed when something new came. Pure; the informer brings the news.
import { type KubeObject, nameKey } from './object.ts'

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

  /** `project` cuts an object down to what is worth its memory. */
  constructor(project: (object: KubeObject) => T) {
    this.#project = project
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

  /** Puts an object into a list that is not complete yet. */
  fill(list: Map<string, Entry<T>>, object: KubeObject): void {
    list.set(nameKey(object.metadata), this.#entryOf(object))
  }

  /** The object as it is now. An object of another uid under the same name is two changes: one went, one came. */
  put(object: KubeObject): Change<T>[] {
    const key = nameKey(object.metadata)
    const entry = this.#entryOf(object)
    const known = this.#entries.get(key)
    this.#entries.set(key, entry)
    return changesOf(key, known, entry)
  }

  remove(object: KubeObject): Change<T>[] {
    const key = nameKey(object.metadata)
    const known = this.#entries.get(key)
    this.#entries.delete(key)
    // The last state of the object may be newer than what we know, so that one is told.
    return known ? [{ type: 'deleted', key, value: this.#project(object) }] : []
  }

  /** A complete new list takes the place of everything, at once. Gives what was there before. */
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

/** What a new list changed, one after the other. Not a generator: told of its first list, which is large, a process has compiled little
 *  yet, and what goes on between the steps of one then takes longer than all the rest. */
export function forEachChange<T>(before: Map<string, Entry<T>>, now: Map<string, Entry<T>>, tell: (change: Change<T>) => void): void {
  before.forEach(({ value }, key) => {
    if (!now.has(key)) tell({ type: 'deleted', key, value })
  })
  now.forEach((entry, key) => {
    const known = before.get(key)
    // The first list is nothing but this.
    if (!known) tell({ type: 'added', key, value: entry.value })
    else for (const change of changesOf(key, known, entry)) tell(change)
  })
}

function changesOf<T>(key: string, known: Entry<T> | undefined, now: Entry<T>): Change<T>[] {
  const added: Change<T> = { type: 'added', key, value: now.value }
  if (!known) return [added]
  if (known.uid !== now.uid) return [{ type: 'deleted', key, value: known.value }, added]
  return known.version === now.version ? [] : [{ type: 'updated', key, value: now.value, before: known.value }]
}
