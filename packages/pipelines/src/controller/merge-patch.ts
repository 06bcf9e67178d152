// The JSON merge patch (RFC 7386) that turns one plain value into another. Pure.

/** Undefined: the values are equal. Lists are replaced as a whole; a key that is gone becomes null. */
export function toMergePatch(before: unknown, after: unknown): unknown {
  if (!isRecord(before) || !isRecord(after)) return isEqual(before, after) ? undefined : after
  const patch: Record<string, unknown> = {}
  for (const key of Object.keys(before)) if (after[key] === undefined && before[key] !== undefined) patch[key] = null
  for (const [key, value] of Object.entries(after)) {
    if (value === undefined) continue
    const part = toMergePatch(before[key], value)
    if (part !== undefined) patch[key] = part
  }
  return Object.keys(patch).length === 0 ? undefined : patch
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

function isEqual(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item, index) => toMergePatch(item, b[index]) === undefined)
  return a === b
}
