// Paths in which two forms of an object differ, as JSON pointers without values, which can be secret. Ignores fields of the API server.
// Pure.
import { isFields, type KubeObject, toPointer } from '@brokkr/kube'

const servers = ['managedFields', 'resourceVersion', 'generation', 'creationTimestamp', 'uid', 'selfLink', 'deletionTimestamp']

/** Returns at most `max` paths, each the smallest that differs. */
export function findChangedPaths(a: KubeObject, b: KubeObject, max: number): string[] {
  const paths: string[] = []
  walk(comparable(a), comparable(b), [])
  return paths

  function walk(left: unknown, right: unknown, path: readonly (string | number)[]): void {
    if (paths.length >= max || Object.is(left, right)) return
    if (isFields(left) && isFields(right)) {
      for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) walk(left[key], right[key], [...path, key])
    } else if (Array.isArray(left) && Array.isArray(right) && left.length === right.length) {
      for (const [index, item] of left.entries()) walk(item, right[index], [...path, index])
    } else if (!isNothing(left) || !isNothing(right)) paths.push(toPointer(path))
  }
}

/** An absent map equals an empty one. */
const isNothing = (value: unknown): boolean =>
  value === undefined || value === null || (typeof value === 'object' && Object.keys(value).length === 0)

function comparable({ status: _status, metadata, ...rest }: KubeObject): object {
  return { ...rest, metadata: Object.fromEntries(Object.entries(metadata).filter(([key]) => !servers.includes(key))) }
}
