// The entries of a map while it is read: a key stands once, and the merge key << takes in the entries of other maps.
import { emptyObject, isJsonObject, type JsonObject, type JsonValue } from '../json-text.ts'
import { ManifestError, type SourceLocation } from '../manifest-error.ts'
import type { Cursor } from './cursor.ts'
import { type Node, toJsonValue, toKeyText } from './node.ts'

export interface Entries {
  readonly map: JsonObject
  /** Keys that only a merge has set. */
  merged: Set<string> | null
}

export const openEntries = (): Entries => ({ map: emptyObject(), merged: null })

/** `isAlias`: the value was written as an alias. */
export function addEntry(at: Cursor, entries: Entries, key: Node, value: Node, isAlias: boolean): void {
  if (isMergeKey(key)) return merge(entries, mergeSources(toJsonValue(at, value), value, isAlias))
  const name = toKeyText(key)
  if (name in entries.map && !entries.merged?.delete(name)) throw duplicateKey(key)
  entries.map[name] = toJsonValue(at, value)
}

const isMergeKey = (key: Node): boolean => key.kind === 'scalar' && key.plain && key.tag === null && key.text === '<<'

export const duplicateKey = (place: SourceLocation) =>
  new ManifestError('duplicate_key', place, { what: 'a key stands twice in one map', todo: 'remove one of the two' })

/** Of several maps the first to name a key wins, so it comes last. */
function mergeSources(value: JsonValue, place: SourceLocation, isAlias: boolean): JsonObject[] {
  const sources = Array.isArray(value) && !isAlias ? value.toReversed() : [value]
  if (sources.every(isJsonObject)) return sources
  throw new ManifestError('bad_merge', place, {
    what: 'a merge key << holds something other than maps',
    todo: 'give it a map, an alias of a map or a list of those',
  })
}

/** In the order of the text, as kubectl reads it: what a merge behind a key brings replaces the key's value. */
function merge(entries: Entries, sources: JsonObject[]): void {
  const merged = (entries.merged ??= new Set())
  for (const source of sources) {
    for (const [name, value] of Object.entries(source)) {
      if (!(name in entries.map)) merged.add(name)
      entries.map[name] = value
    }
  }
}
