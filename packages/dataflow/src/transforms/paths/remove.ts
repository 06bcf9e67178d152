// Removes matches from a payload. Builds a new object instead of using `delete`, because an object with deleted keys is slow to read and
// print (measured: 1.5 times the whole cost of a message).
import { compileGlob } from '@brokkr/contract/dataflow/language/glob.ts'
import { isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import type { Segment } from '@brokkr/contract/dataflow/language/path.ts'
import { compileQuery } from '@brokkr/contract/dataflow/language/read-path.ts'
import type { Edit, Editor } from './edit.ts'

interface RemoveOptions {
  /** Also removes objects that lose their last key, up through keys; array elements stay. */
  readonly dropsEmptied: boolean
}

/** Returns the root; `hits` counts removals. */
export function compileRemove(segments: readonly Segment[], options: RemoveOptions = { dropsEmptied: false }): Editor {
  const [first, ...others] = segments
  if (first === undefined) return (root) => root
  const rest = others.length === 0 ? undefined : compileRemove(others, options)
  if (first.kind === 'key') return fromObject((key) => key === first.key, rest, options)
  if (first.kind === 'wildcard') return fromObject(compileGlob(first.glob), rest, options)
  if (first.kind === 'index') {
    const fromKey = fromObject((key) => key === first.key, rest, options)
    const fromList = fromArray((_value, i) => i === first.index, false, rest)
    return (root, edit) => (Array.isArray(root) ? fromList(root, edit) : fromKey(root, edit))
  }
  if (first.kind === 'each') return fromArray(() => true, true, rest)
  const isMatch = compileQuery(first.query)
  return fromArray((value) => isMatch(value), first.query.all, rest)
}

function fromObject(isMatch: (key: string) => boolean, rest: Editor | undefined, options: RemoveOptions): Editor {
  return (root, edit) => {
    if (!isRecord(root)) return root
    if (rest === undefined) return withoutKeys(root, isMatch, edit)
    let target = root
    const emptied: string[] = []
    for (const key of Object.keys(root)) {
      const before = root[key]!
      const after = isMatch(key) ? rest(before, edit) : before
      if (after === before) continue
      if (options.dropsEmptied && isEmptyObject(after)) emptied.push(key)
      if (target === root && !edit.isOwned) target = { ...root }
      setKey(target, key, after)
    }
    return emptied.length === 0 ? target : withoutKeys(target, (key) => emptied.includes(key), { isOwned: true, hits: 0 })
  }
}

/** A new object without some keys, or the same one if it has none of them. */
export function withoutKeys(object: JsonObject, isGone: (key: string) => boolean, edit: Edit): JsonObject {
  const keys = Object.keys(object)
  if (!keys.some(isGone)) return object
  const remaining: JsonObject = {}
  for (const key of keys) {
    if (isGone(key)) edit.hits += 1
    else setKey(remaining, key, object[key]!)
  }
  return remaining
}

const isEmptyObject = (value: Json): boolean => isRecord(value) && Object.keys(value).length === 0

function fromArray(isMatch: (value: Json, index: number) => boolean, all: boolean, rest: Editor | undefined): Editor {
  return (root, edit) => {
    if (!Array.isArray(root)) return root
    const matches = matchesIn(root, isMatch, all)
    return rest === undefined ? withoutElements(root, new Set(matches), edit) : withinElements(root, matches, edit, rest)
  }
}

function matchesIn(array: readonly Json[], isMatch: (value: Json, index: number) => boolean, all: boolean): number[] {
  if (!all) return [array.findIndex(isMatch)].filter((i) => i >= 0)
  const matches: number[] = []
  for (const [i, value] of array.entries()) if (isMatch(value, i)) matches.push(i)
  return matches
}

function withoutElements(array: Json[], gone: ReadonlySet<number>, edit: Edit): Json[] {
  if (gone.size === 0) return array
  edit.hits += gone.size
  return array.filter((_value, i) => !gone.has(i))
}

function withinElements(array: Json[], matches: readonly number[], edit: Edit, rest: Editor): Json[] {
  let target = array
  for (const i of matches) {
    const after = rest(array[i]!, edit)
    if (after === array[i]) continue
    if (target === array && !edit.isOwned) target = [...array]
    target[i] = after
  }
  return target
}
