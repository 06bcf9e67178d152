// The part of a payload that a set of paths names, with its nesting: a document with everything else left out.
import { compileGlob } from '@brokkr/contract/dataflow/glob.ts'
import { isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/json.ts'
import type { Segment } from '@brokkr/contract/dataflow/path.ts'
import { compileQuery } from '@brokkr/contract/dataflow/read-path.ts'

/** Undefined when none of the paths leads anywhere. */
export type Project = (root: Json) => Json | undefined

export function compileProject(paths: readonly (readonly Segment[])[]): Project {
  const heads = paths.map(compileHead)
  return (root) => project(root, heads)
}

/** One path, taken apart: which children its first segment names, and the rest of it. */
interface Head {
  readonly matchesKey: (key: string) => boolean
  /** Asked once per array. */
  readonly elementsOf: (array: readonly Json[]) => (index: number) => boolean
  /** Undefined at the end of the path: the whole child is kept. */
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
  const kept: JsonObject = {}
  let isFound = false
  for (const key of Object.keys(object)) {
    const child = projectChild(
      object[key]!,
      heads.filter((head) => head.matchesKey(key)),
    )
    if (child === undefined) continue
    setKey(kept, key, child)
    isFound = true
  }
  return isFound ? kept : undefined
}

function projectArray(array: Json[], heads: readonly Head[]): Json[] | undefined {
  const elements = heads.map((head) => head.elementsOf(array))
  const kept = array.flatMap((element, i) => {
    const child = projectChild(
      element,
      heads.filter((_head, h) => elements[h]!(i)),
    )
    return child === undefined ? [] : [child]
  })
  return kept.length === 0 ? undefined : kept
}

function projectChild(child: Json, matching: readonly Head[]): Json | undefined {
  if (matching.length === 0) return undefined
  if (matching.some(({ rest }) => rest === undefined)) return child
  return project(
    child,
    matching.map(({ rest }) => rest!),
  )
}
