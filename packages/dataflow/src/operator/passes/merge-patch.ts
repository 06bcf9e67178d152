// JSON merge patch between two values. Pure.
import { type Fields, isFields } from '@brokkr/kube'

/** Undefined if nothing differs. Lists are replaced as a whole; a field that is gone becomes null. */
export function diffFields(before: Fields, after: Fields): Fields | undefined {
  const patch: Fields = {}
  for (const key of Object.keys(before)) if (after[key] === undefined && before[key] !== undefined) patch[key] = null
  for (const [key, value] of Object.entries(after)) {
    const old = before[key]
    if (value === undefined) continue
    if (isFields(old) && isFields(value)) {
      const inner = diffFields(old, value)
      if (inner !== undefined) patch[key] = inner
    } else if (!isSame(old, value)) patch[key] = value
  }
  return Object.keys(patch).length === 0 ? undefined : patch
}

/** Order of keys does not count: the API server may return another one. */
function isSame(left: unknown, right: unknown): boolean {
  if (Array.isArray(left) && Array.isArray(right)) return left.length === right.length && left.every((each, i) => isSame(each, right[i]))
  if (!isFields(left) || !isFields(right)) return left === right
  const keys = new Set([...Object.keys(left), ...Object.keys(right)])
  return [...keys].every((key) => isSame(left[key], right[key]))
}
