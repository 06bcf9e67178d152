// Compiles paths to closures that read values, without allocation if the path has one match. Missing values are undefined.
import { compileCompare, type Test } from './compare.ts'
import { compileGlob } from './glob.ts'
import { isInherited, isRecord, type Json, valueAt } from './json.ts'
import type { Literal } from './literal.ts'
import type { Query, Segment } from './path.ts'
import { stringForm } from './string-form.ts'

export type Read = (root: Json | undefined) => Json | undefined

export function compileRead(segments: readonly Segment[]): Read {
  const [first, ...others] = segments
  if (first === undefined) return (root) => root
  const rest = others.length === 0 ? undefined : compileRead(others)
  if (first.kind === 'key') return then(readKey(first.key), rest)
  if (first.kind === 'index') return then(readIndex(first.key, first.index), rest)
  if (first.kind === 'wildcard') return then(readWildcard(first.glob), rest)
  if (first.kind === 'each') return rest === undefined ? readLength : readEach(() => true, rest)
  const isMatch = compileQuery(first.query)
  return first.query.all ? readEach(isMatch, rest ?? ((value) => value)) : then(readFirst(isMatch), rest)
}

const then = (read: Read, rest: Read | undefined): Read => (rest === undefined ? read : (root) => rest(read(root)))

/** Arrays, raw numbers and dates have no value for most keys: only inherited and numeric keys need a check. */
function readKey(key: string): Read {
  if (isInherited(key) || /^[0-9]+$/.test(key)) return (root) => valueAt(root, key)
  return (root) => (typeof root === 'object' && root !== null ? (root as Record<string, Json | undefined>)[key] : undefined)
}

function readIndex(key: string, index: number): Read {
  return (root) => (Array.isArray(root) ? root[index] : valueAt(root, key))
}

function readWildcard(glob: string): Read {
  const isMatch = compileGlob(glob)
  return (root) => {
    if (!isRecord(root)) return undefined
    const key = Object.keys(root).find(isMatch)
    return key === undefined ? undefined : root[key]
  }
}

const readLength: Read = (root) => (Array.isArray(root) ? root.length : undefined)

function readEach(isMatch: Test, rest: Read): Read {
  return (root) => {
    if (!Array.isArray(root)) return undefined
    const values: Json[] = []
    for (const element of root) {
      const value = isMatch(element) ? rest(element) : undefined
      if (value !== undefined) values.push(value)
    }
    return values
  }
}

const readFirst =
  (isMatch: Test): Read =>
  (root) =>
    Array.isArray(root) ? root.find(isMatch) : undefined

/** Whether an element matches a query. */
export function compileQuery(query: Query): Test {
  const read = compileRead(query.segments)
  const test = query.operator === '%' ? matchesGlob(query.literal) : compileCompare(query.operator, query.literal)
  return query.segments.length === 0 ? test : (element) => test(read(element))
}

function matchesGlob(literal: Literal): Test {
  const isMatch = compileGlob(literal.kind === 'text' || literal.kind === 'number' ? literal.text : printWord(literal))
  return (value) => value !== undefined && isMatch(stringForm(value))
}

const printWord = (literal: Literal): string => (literal.kind === 'boolean' ? String(literal.value) : 'null')
