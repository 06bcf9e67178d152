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

  /** A complete new list takes the place of everything, at once; what changed by it is found out while somebody asks. */
  replaceAll(fresh: Map<string, Entry<T>>): Iterable<Change<T>> {
    const before = this.#entries
    this.#entries = fresh
    return differences(before, fresh)
  }

  newList(): Map<string, Entry<T>> {
    return new Map()
  }

  #entryOf(object: KubeObject): Entry<T> {
    const { uid = '', resourceVersion = '' } = object.metadata
    return { uid, version: resourceVersion, value: this.#project(object) }
  }
}

function* differences<T>(before: Map<string, Entry<T>>, fresh: Map<string, Entry<T>>): Generator<Change<T>> {
  for (const [key, { value }] of before) if (!fresh.has(key)) yield { type: 'deleted', key, value }
  for (const [key, now] of fresh) {
    const known = before.get(key)
    // The first list is nothing but this.
    if (!known) yield { type: 'added', key, value: now.value }
    else yield* changesOf(key, known, now)
  }
}

function changesOf<T>(key: string, known: Entry<T> | undefined, now: Entry<T>): Change<T>[] {
  const added: Change<T> = { type: 'added', key, value: now.value }
  if (!known) return [added]
  if (known.uid !== now.uid) return [{ type: 'deleted', key, value: known.value }, added]
  return known.version === now.version ? [] : [{ type: 'updated', key, value: now.value, before: known.value }]
}
