// Sets a value at a path of keys and indexes. Missing and null parents become objects; a parent of another type is an error.
import { isRecord, type Json, type JsonObject, setKey, valueAt } from '@brokkr/contract/dataflow/language/json.ts'
import type { Path, Segment } from '@brokkr/contract/dataflow/language/path.ts'
import { TransformError } from '../transform.ts'

/** Returns the root, which must be an object. Modifies the payload if `isOwned`, else copies the objects on the path. */
export type Setter = (root: Json, value: Json, isOwned: boolean) => Json

/** `type` names the transform in errors. */
export function compileSet(type: string, path: Path): Setter {
  const [first] = path.segments
  if (path.segments.length === 1 && first!.kind === 'key') return setRootKey(first!.key)
  return setAt(path.segments, 0, createThrower(type, path))
}

type Fail = (reason: string) => never

const createThrower =
  (type: string, path: Path): Fail =>
  (reason) => {
    throw new TransformError(type, path.text, reason)
  }

function setRootKey(key: string): Setter {
  return (root, value, isOwned) => {
    const target = isOwned ? (root as JsonObject) : { ...(root as JsonObject) }
    setKey(target, key, value)
    return target
  }
}

function setAt(segments: readonly Segment[], at: number, fail: Fail): Setter {
  const segment = segments[at]
  if (segment === undefined) return (_root, value) => value
  const rest = setAt(segments, at + 1, fail)
  const key = 'key' in segment ? segment.key : fail('only keys and indexes can be set')
  return (root, value, isOwned) => {
    if (Array.isArray(root)) return setElement(root, segment, isOwned, (before) => rest(before, value, isOwned), fail)
    if (root !== null && !isRecord(root)) return fail('a parent is neither an object nor an array')
    const after = rest(valueAt(root, key) ?? null, value, isOwned)
    const target: JsonObject = root === null ? {} : isOwned ? root : { ...root }
    setKey(target, key, after)
    return target
  }
}

/** Replaces an element, or appends one. */
function setElement(array: Json[], segment: Segment, isOwned: boolean, change: (before: Json) => Json, fail: Fail): Json[] {
  if (segment.kind !== 'index') return fail('an array has no keys')
  if (segment.index > array.length) return fail('the index is beyond the end of the array')
  const after = change(array[segment.index] ?? null)
  const target = isOwned ? array : [...array]
  target[segment.index] = after
  return target
}
