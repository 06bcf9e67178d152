// Uses of a path. Reading accepts every path; other uses refuse some, with the reason (V12, V18).

import type { Rule } from '../fields/problem.ts'
import { isWide, type Path } from './path.ts'

/** edit: change existing values (mask, cast, remove …); set: set a value and create parents; place: read exactly one location; part: one
 *  below the root; named: read, under the name of its last key. */
export type PathUse = 'read' | 'edit' | 'set' | 'place' | 'part' | 'named'

export function pathFault(path: Path, use: PathUse): { readonly rule: Rule; readonly reason: string } | undefined {
  if ((use === 'place' || use === 'part') && !isOnePlace(path)) return { rule: 'V18', reason: 'must name one place' }
  const why = whyNot(path, use)
  return why === undefined
    ? undefined
    : { rule: 'V12', reason: `path "${path.text}" cannot be ${use === 'named' ? 'selected' : 'written'}: ${why}` }
}

function whyNot(path: Path, use: PathUse): string | undefined {
  if (use === 'read' || use === 'place') return undefined
  if (path.segments.length === 0) return 'it names the whole payload'
  if (use === 'named')
    return path.segments.some((segment) => 'key' in segment || 'glob' in segment) ? undefined : 'it has no key to be named by'
  return use === 'set' || use === 'part' ? whyNotSet(path) : whyNotEdited(path)
}

const isOnePlace = (path: Path): boolean => !path.segments.some(isWide)

const whyNotEdited = (path: Path): string | undefined =>
  path.segments.at(-1)!.kind === 'each' ? 'it is a length; write what lies below # or name the array' : undefined

const whyNotSet = (path: Path): string | undefined =>
  whyNotEdited(path) ?? (isOnePlace(path) ? undefined : 'only keys and indexes can be set')
