import fc from 'fast-check'
import { expect, test } from 'vitest'
import { guardRemovals } from './removal-guard.ts'

const ids = (from: number, count: number): Set<string> => new Set(Array.from({ length: count }, (_, index) => `s${from + index}`))
const none = new Set<string>()

test.each([
  // owned, removals, absent, allowed → passes
  ['nothing to remove', 200, 0, 0, null, true],
  ['two of a hundred by silence', 100, 0, 2, null, true],
  ['five of seven by name', 7, 5, 0, null, true],
  ['six of seven by name', 7, 6, 0, null, false],
  ['a fifth of a hundred', 100, 10, 10, null, true],
  ['more than a fifth of a hundred', 100, 11, 10, null, false],
  ['all of two hundred by silence', 200, 0, 200, null, false],
  ['the only one by silence', 1, 0, 1, null, false],
  ['the only one by name', 1, 1, 0, null, true],
  ['all five by name', 5, 5, 0, null, true],
  ['all five, one of them by silence', 5, 4, 1, null, false],
  ['all of two hundred, approved', 200, 0, 200, 200, true],
  ['all of two hundred, too few approved', 200, 0, 200, 199, false],
  ['approval of none changes nothing for a few', 100, 2, 0, 0, true],
])('%s', (_what, owned, removals, absent, allowRemovals, passes) => {
  const evidence = { owned: ids(0, owned), removals: ids(0, removals), absent: ids(removals, absent), allowRemovals }
  const verdict = guardRemovals(evidence)
  const all = [...ids(0, removals + absent)]
  expect(verdict).toEqual(passes ? { remove: all, hold: [] } : { remove: [], hold: all })
})

test('stacks that are not in the cluster neither count nor are held', () => {
  const verdict = guardRemovals({
    owned: ids(0, 10),
    removals: new Set([...ids(0, 6), ...ids(100, 30)]),
    absent: none,
    allowRemovals: null,
  })
  expect(verdict).toEqual({ remove: [...ids(100, 30)], hold: [...ids(0, 6)] })
})

test('stacks unknown to a new epoch are held until all of them are approved', () => {
  const evidence = { owned: ids(0, 100), removals: ids(0, 1), absent: ids(1, 3), orphans: ids(0, 3) }
  // Named by the list, and so no orphan any more; unknown and no orphan; unknown since that history began.
  expect(guardRemovals({ ...evidence, allowRemovals: null })).toEqual({ remove: ['s0', 's3'], hold: ['s1', 's2'] })
  expect(guardRemovals({ ...evidence, allowRemovals: 3 })).toEqual({ remove: ['s0', 's3'], hold: ['s1', 's2'] })
  expect(guardRemovals({ ...evidence, allowRemovals: 4 })).toEqual({ remove: ['s0', 's1', 's2', 's3'], hold: [] })
})

test('every missing stack is either removed or held, and no other', () => {
  const some = fc.array(fc.integer({ min: 0, max: 30 }).map((n) => `s${n}`)).map((list) => new Set(list))
  fc.assert(
    fc.property(some, some, some, fc.option(fc.nat(40)), (owned, removals, absent, allowRemovals) => {
      const { remove, hold } = guardRemovals({ owned, removals, absent, allowRemovals })
      expect(new Set([...remove, ...hold])).toEqual(new Set([...removals, ...absent]))
      expect(remove.filter((id) => hold.includes(id))).toEqual([])
      expect(hold.every((id) => owned.has(id))).toBe(true)
      // Never more than the bound without an approval.
      const costly = remove.filter((id) => owned.has(id)).length
      expect(costly <= Math.max(5, Math.floor(owned.size / 5), allowRemovals ?? 0)).toBe(true)
    }),
  )
})
