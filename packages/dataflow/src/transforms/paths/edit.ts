// Replaces the values that a path matches: in place if the payload is owned, else with copies of the objects along the path.
import { compileGlob } from '@brokkr/contract/dataflow/language/glob.ts'
import { isInherited, isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import type { Segment } from '@brokkr/contract/dataflow/language/path.ts'
import { compileQuery } from '@brokkr/contract/dataflow/language/read-path.ts'

/** State of one edit of one payload. */
export interface Edit {
  isOwned: boolean
  /** Matches so far. */
  hits: number
}

/** Returns the root: the same one if nothing changed or it was changed in place. */
export type Editor = (root: Json, edit: Edit) => Json

export function compileEdit(segments: readonly Segment[], change: (value: Json) => Json): Editor {
  const [first, ...others] = segments
  if (first === undefined) return (root, edit) => hit(root, edit, change)
  const rest = compileEdit(others, change)
  if (first.kind === 'key') return isPlain(first.key) ? editPlainKey(first.key, rest) : editAnyKey(first.key, rest)
  if (first.kind === 'index') {
    return (root, edit) => {
      if (Array.isArray(root)) return editElement(root, first.index, edit, rest)
      return isRecord(root) ? editKey(root, first.key, edit, rest) : root
    }
  }
  if (first.kind === 'wildcard') return editWildcard(compileGlob(first.glob), rest)
  if (first.kind === 'each') return editElements(() => true, true, rest)
  return editElements(compileQuery(first.query), first.query.all, rest)
}

function hit(value: Json, edit: Edit, change: (value: Json) => Json): Json {
  edit.hits += 1
  return change(value)
}

/** Only objects have keys that are neither inherited nor numeric, so no other check is needed. */
const isPlain = (key: string): boolean => !isInherited(key) && !/^[0-9]+$/.test(key)

function editPlainKey(key: string, rest: Editor): Editor {
  return (root, edit) => {
    if (typeof root !== 'object' || root === null) return root
    const before = (root as JsonObject)[key]
    if (before === undefined) return root
    const after = rest(before, edit)
    if (after === before) return root
    const target = edit.isOwned ? (root as JsonObject) : { ...(root as JsonObject) }
    target[key] = after
    return target
  }
}

const editAnyKey =
  (key: string, rest: Editor): Editor =>
  (root, edit) =>
    isRecord(root) ? editKey(root, key, edit, rest) : root

function editKey(object: JsonObject, key: string, edit: Edit, rest: Editor): JsonObject {
  if (!Object.hasOwn(object, key)) return object
  const before = object[key]!
  const after = rest(before, edit)
  if (after === before) return object
  const target = edit.isOwned ? object : { ...object }
  setKey(target, key, after)
  return target
}

function editElement(array: Json[], index: number, edit: Edit, rest: Editor): Json[] {
  const before = array[index]
  if (before === undefined) return array
  const after = rest(before, edit)
  if (after === before) return array
  const target = edit.isOwned ? array : [...array]
  target[index] = after
  return target
}

/** Iterates over the keys at the start; an object is copied at most once. */
function editWildcard(isMatch: (key: string) => boolean, rest: Editor): Editor {
  return (root, edit) => {
    if (!isRecord(root)) return root
    let target = root
    for (const key of Object.keys(root)) {
      const after = isMatch(key) ? rest(root[key]!, edit) : root[key]!
      if (after === root[key]) continue
      if (target === root && !edit.isOwned) target = { ...root }
      setKey(target, key, after)
    }
    return target
  }
}

function editElements(isMatch: (value: Json) => boolean, all: boolean, rest: Editor): Editor {
  return (root, edit) => {
    if (!Array.isArray(root)) return root
    let target = root
    for (let i = 0; i < root.length; i += 1) {
      const before = root[i]!
      if (!isMatch(before)) continue
      const after = rest(before, edit)
      if (after !== before) {
        if (target === root && !edit.isOwned) target = [...root]
        target[i] = after
      }
      if (!all) break
    }
    return target
  }
}
