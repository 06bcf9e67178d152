// Which awaits a crash test kills at: all of them, some by number, or a seeded choice that has every distinct call in it.
import { createHash } from 'node:crypto'

/** Numbers from 1 in rising order. Without a choice it goes on to `max`, and the caller stops at the first run that survives. */
export function pickPoints(
  points: readonly string[],
  how: { pick?: readonly number[] | number | null | undefined; seed: number; max: number },
): readonly number[] {
  if (how.pick === undefined || how.pick === null) return range(how.max)
  if (typeof how.pick !== 'number') return how.pick.toSorted((a, b) => a - b)
  const chosen = new Set(firstOfEach(points))
  const rest = range(points.length).filter((n) => !chosen.has(n))
  const seeded = rest.toSorted((a, b) => rank(how.seed, a) - rank(how.seed, b)).slice(0, how.pick)
  return [...chosen, ...seeded].toSorted((a, b) => a - b)
}

/** A step boundary is where the program first reaches a call, and where it first comes back from it. */
function firstOfEach(points: readonly string[]): number[] {
  return range(points.length).filter((n) => points.indexOf(points[n - 1] ?? '') === n - 1)
}

/** The same seed gives the same order on every machine. */
function rank(seed: number, n: number): number {
  return createHash('sha256').update(`${seed}:${n}`).digest().readUIntBE(0, 6)
}

function range(length: number): number[] {
  return Array.from({ length }, (_, index) => index + 1)
}
