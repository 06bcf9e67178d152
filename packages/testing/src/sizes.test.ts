import { expect, expectTypeOf, test } from 'vitest'
import { size, sizeNames, sizes, tierOfRun } from './sizes.ts'

test.each([
  [{}, 'test'],
  [{ BROKKR_TEST_TIER: 'all' }, 'test'],
  [{ BROKKR_TEST_TIER: 'quick' }, 'test'],
  [{ BROKKR_TEST_TIER: 'proof' }, 'proof'],
] as const)('environment %j runs the sizes of %s', (environment, tier) => {
  expect(tierOfRun(environment)).toBe(tier)
})

test('a size is taken from the column of its tier, for proof the largest', () => {
  expect(size('S4.commits', 'test')).toBe(10_000)
  expect(size('S4.commits', 'proof')).toBe(1_000_000)
  expect(sizes('S4.commits', 'proof')).toEqual([100_000, 1_000_000])
  expect(sizes('S46.rows', 'proof')).toEqual([100_000])
})

test('only a row without a bound in one of its columns can be null', () => {
  expectTypeOf(size('S4.commits')).toEqualTypeOf<number>()
  expectTypeOf(size('S8.pauseMs')).toEqualTypeOf<number | null>()
  expect(size('S8.pauseMs', 'test')).toBeNull()
})

test.each(sizeNames)('%s is nowhere smaller in proof than in the daily run', (name) => {
  const [daily, proof] = [size(name, 'test'), size(name, 'proof')]
  expect(daily ?? proof).toBeGreaterThan(0)
  expect(proof ?? Number.POSITIVE_INFINITY).toBeGreaterThanOrEqual(daily ?? 0)
})
