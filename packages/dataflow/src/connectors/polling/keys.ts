// Order of key values of polling sources, as text. Pure.
import { compareDecimals } from '@brokkr/contract/dataflow/language/decimal.ts'

/** Order of values: numbers, times, or text. */
export type KeyKind = 'number' | 'time' | 'text'

export function compareKeys(kind: KeyKind, left: string, right: string): number {
  if (left === right) return 0
  if (kind === 'number' && isFinitePair(left, right)) return compareDecimals(left, right)
  const [a, b] = kind === 'time' ? [timeKey(left), timeKey(right)] : [left, right]
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** NaN and infinities have no digits and are ordered by their text. */
const isFinitePair = (...values: string[]): boolean => values.every((value) => /^-?[0-9.]+(e[+-]?[0-9]+)?$/i.test(value))

/** Same width of the fraction, so that .1 comes before .15. */
function timeKey(text: string): string {
  const [, head = text, fraction = ''] = /^([^.]*?)(?:\.([0-9]+))?(?:Z|[+-]00(?::?00)?)?$/.exec(text.replace(' ', 'T')) ?? []
  return `${head}.${fraction.padEnd(9, '0')}`
}

/** As stored in the state: 2026-01-02T03:04:05.123456Z. The session's zone is UTC. */
export const timeText = (kind: KeyKind, text: string): string => (kind === 'time' ? text.replace(' ', 'T').replace(/\+00$/, 'Z') : text)
