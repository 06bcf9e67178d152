// Finds all matches of several paths before any value changes, so that one change cannot hide a match of another path.
import { compileGlob } from '@brokkr/contract/dataflow/language/glob.ts'
import { isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import type { Segment } from '@brokkr/contract/dataflow/language/path.ts'
import { compileQuery } from '@brokkr/contract/dataflow/language/read-path.ts'

/** A value within its object or array. */
export type Match = { readonly in: JsonObject; readonly key: string } | { readonly in: Json[]; readonly key: number }

export type Finder = (root: Json, found: Match[]) => void

/** For paths below the root. */
export function compileFind(segments: readonly Segment[]): Finder {
  const [first, ...others] = segments
  if (first === undefined) return () => {}
  const rest = others.length === 0 ? undefined : compileFind(others)
  if (first.kind === 'key') return findKeys((key) => key === first.key, rest)
  if (first.kind === 'wildcard') return findKeys(compileGlob(first.glob), rest)
  if (first.kind === 'index') {
    const keys = findKeys((key) => key === first.key, rest)
    const elements = findElements((_value, i) => i === first.index, false, rest)
    return (root, found) => (Array.isArray(root) ? elements(root, found) : keys(root, found))
  }
  if (first.kind === 'each') return findElements(() => true, true, rest)
  const isMatch = compileQuery(first.query)
  return findElements((value) => isMatch(value), first.query.all, rest)
}

function findKeys(isMatch: (key: string) => boolean, rest: Finder | undefined): Finder {
  return (root, found) => {
    if (!isRecord(root)) return
    for (const key of Object.keys(root)) {
      if (!isMatch(key)) continue
      if (rest === undefined) found.push({ in: root, key })
      else rest(root[key]!, found)
    }
  }
}

function findElements(isMatch: (value: Json, index: number) => boolean, all: boolean, rest: Finder | undefined): Finder {
  return (root, found) => {
    if (!Array.isArray(root)) return
    for (let i = 0; i < root.length; i += 1) {
      if (!isMatch(root[i]!, i)) continue
      if (rest === undefined) found.push({ in: root, key: i })
      else rest(root[i]!, found)
      if (!all) return
    }
  }
}

export function changePlace(place: Match, change: (value: Json) => Json): void {
  if (Array.isArray(place.in)) place.in[place.key as number] = change(place.in[place.key as number]!)
  else setKey(place.in, place.key as string, change(place.in[place.key]!))
}
