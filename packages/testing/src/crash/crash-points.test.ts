import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pickPoints } from './crash-points.ts'

const points = ['a before', 'a after', 'b before', 'b after', 'a before', 'a after', 'a before', 'a after']

test.each([undefined, null])('pick %s takes every point up to the bound', (pick) => {
  expect(pickPoints(points, { pick, seed: 1, max: 10 })).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
})

test('listed points are in ascending order', () => {
  expect(pickPoints(points, { pick: [7, 2], seed: 1, max: 10 })).toEqual([2, 7])
})

test('a seeded choice has the first point of every distinct call and so many others', () => {
  expect(pickPoints(points, { pick: 0, seed: 1, max: 10 })).toEqual([1, 2, 3, 4])
  const chosen = pickPoints(points, { pick: 2, seed: 1, max: 10 })
  expect(chosen).toHaveLength(6)
  expect(chosen.slice(0, 4)).toEqual([1, 2, 3, 4])
})

test('a seed always selects the same ascending list of existing points', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 40 }), fc.nat(50), fc.nat(), (labels, pick, seed) => {
      const chosen = pickPoints(labels, { pick, seed, max: 100 })
      expect(chosen).toEqual(pickPoints(labels, { pick, seed, max: 100 }))
      expect(chosen).toEqual([...new Set(chosen)].toSorted((a, b) => a - b))
      expect(chosen.every((n) => n >= 1 && n <= labels.length)).toBe(true)
    }),
  )
})
