import { expect, test } from 'vitest'
import { toMergePatch } from './merge-patch.ts'

test.each([
  [{ a: 1 }, { a: 1 }, undefined],
  [{ a: 1 }, { a: 2 }, { a: 2 }],
  [{ a: 1, b: 2 }, { b: 2 }, { a: null }],
  [{}, { a: { b: 1 } }, { a: { b: 1 } }],
  [{ a: { b: 1, c: 2 } }, { a: { b: 1, c: 3 } }, { a: { c: 3 } }],
  [{ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }, undefined],
  [{ a: [1] }, { a: [1, 2] }, { a: [1, 2] }],
  [{ a: undefined }, {}, undefined],
  [{ a: { b: 1 } }, { a: 'x' }, { a: 'x' }],
])('the merge patch from %j to %j is minimal', (before, after, patch) => {
  expect(toMergePatch(before, after)).toEqual(patch)
})
