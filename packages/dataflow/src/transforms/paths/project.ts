// Copies the parts of a payload that a set of paths matches, with their nesting.
import { compileGlob } from '@brokkr/contract/dataflow/language/glob.ts'
import { isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import type { Segment } from '@brokkr/contract/dataflow/language/path.ts'
import { compileQuery } from '@brokkr/contract/dataflow/language/read-path.ts'

/** Undefined if no path matches. */
export type Project = (root: Json) => Json | undefined

export function compileProject(paths: readonly (readonly Segment[])[]): Project {
  const heads = paths.map(compileHead)
  return (root) => project(root, heads)
}

/** One path: the children that its first segment matches, and the remaining segments. */
interface Head {
  readonly matchesKey: (key: string) => boolean
  /** Called once per array. */
  readonly elementsOf: (array: readonly Json[]) => (index: number) => boolean
  /** Undefined at the end of the path: the whole child is copied. */
  readonly rest: Head | undefined
}

function compileHead([first, ...others]: readonly Segment[]): Head {
  const rest = others.length === 0 ? undefined : compileHead(others)
  const no = () => false
  const noElement = () => no
  if (first!.kind === 'key') {
    const { key } = first!
    return { matchesKey: (name) => name === key, elementsOf: noElement, rest }
  }
  if (first!.kind === 'index') {
    const { key, index } = first!
    return { matchesKey: (name) => name === key, elementsOf: () => (i) => i === index, rest }
  }
  if (first!.kind === 'wildcard') return { matchesKey: compileGlob(first!.glob), elementsOf: noElement, rest }
  if (first!.kind === 'each') return { matchesKey: no, elementsOf: () => () => true, rest }
  const { all } = first!.query
  const isMatch = compileQuery(first!.query)
  return { matchesKey: no, elementsOf: (array) => (all ? (i) => isMatch(array[i]) : isFirst(array.findIndex(isMatch))), rest }
}

const isFirst =
  (first: number) =>
  (i: number): boolean =>
    i === first

function project(value: Json, heads: readonly Head[]): Json | undefined {
  if (Array.isArray(value)) return projectArray(value, heads)
  return isRecord(value) ? projectObject(value, heads) : undefined
}

function projectObject(object: JsonObject, heads: readonly Head[]): JsonObject | undefined {
  const projected: JsonObject = {}
  let isFound = false
  for (const key of Object.keys(object)) {
    const child = projectChild(
      object[key]!,
      heads.filter((head) => head.matchesKey(key)),
    )
    if (child === undefined) continue
    setKey(projected, key, child)
    isFound = true
  }
  return isFound ? projected : undefined
}

function projectArray(array: Json[], heads: readonly Head[]): Json[] | undefined {
  const elements = heads.map((head) => head.elementsOf(array))
  const projected = array.flatMap((element, i) => {
    const child = projectChild(
      element,
      heads.filter((_head, h) => elements[h]!(i)),
    )
    return child === undefined ? [] : [child]
  })
  return projected.length === 0 ? undefined : projected
}

function projectChild(child: Json, matching: readonly Head[]): Json | undefined {
  if (matching.length === 0) return undefined
  if (matching.some(({ rest }) => rest === undefined)) return child
  return project(
    child,
    matching.map(({ rest }) => rest!),
  )
}
