// Where two forms of an object differ, as JSON pointers, without the values: they may be secret. What the API server keeps for
// itself does not count. Pure.
import { pointerOf } from '@brokkr/kube/field-path.ts'
import { isFields } from '@brokkr/kube/fields.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'

const servers = ['managedFields', 'resourceVersion', 'generation', 'creationTimestamp', 'uid', 'selfLink', 'deletionTimestamp']

/** At most `max` places, each the smallest that differs. */
export function changedPaths(a: KubeObject, b: KubeObject, max: number): string[] {
  const found: string[] = []
  walk(comparable(a), comparable(b), [])
  return found

  function walk(left: unknown, right: unknown, path: readonly (string | number)[]): void {
    if (found.length >= max || Object.is(left, right)) return
    if (isFields(left) && isFields(right)) {
      for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) walk(left[key], right[key], [...path, key])
    } else if (Array.isArray(left) && Array.isArray(right) && left.length === right.length) {
      for (const [index, item] of left.entries()) walk(item, right[index], [...path, index])
    } else if (!isNothing(left) || !isNothing(right)) found.push(pointerOf(path))
  }
}

/** An absent map and an empty one mean the same. */
const isNothing = (value: unknown): boolean =>
  value === undefined || value === null || (typeof value === 'object' && Object.keys(value).length === 0)

function comparable({ status: _status, metadata, ...rest }: KubeObject): object {
  return { ...rest, metadata: Object.fromEntries(Object.entries(metadata).filter(([key]) => !servers.includes(key))) }
}
