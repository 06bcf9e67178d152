import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OverlapWindow, type RowKey } from './overlap.ts'

const compare = (left: RowKey, right: RowKey): number => (left.c === right.c ? Number(left.o) - Number(right.o) : left.c < right.c ? -1 : 1)
const at = (second: number, id: number): RowKey => ({ c: new Date(second * 1000).toISOString(), o: String(id) })
const create = (rowsMax: number) => new OverlapWindow({ overlapMs: 5_000, rowsMax, compare })

test('the overlap window contains only rows of the overlap', () => {
  const window = create(100)
  window.add([at(1, 1), at(4, 2), at(6, 3)], at(6, 3))
  window.add([at(9, 4)], at(9, 4))
  expect([at(1, 1), at(4, 2), at(6, 3), at(9, 4)].map((row) => window.has(row))).toEqual([false, true, true, true])
  expect(window.floor).toBeUndefined()
})

test('an overlap with too many rows is narrowed until its oldest rows lie outside', () => {
  const window = create(3)
  window.add(
    [1, 2, 3, 4, 5].map((id) => at(1, id)),
    at(1, 5),
  )
  expect(window.floor).toEqual(at(1, 2))
  window.add([at(7, 6)], at(7, 6))
  expect(window.floor).toBeUndefined()
})

test('rows above the floor are found in any order of arrival', () => {
  const rows = fc.array(fc.array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 99 })), { maxLength: 20 }))
  fc.assert(
    fc.property(rows, (pages) => {
      const window = create(10)
      const added: RowKey[] = []
      let last = at(0, 0)
      for (const page of pages) {
        const keys = page.map(([second, id]) => at(second, id)).filter((key) => !added.some((each) => compare(each, key) === 0))
        const sorted = keys.filter((key, index) => keys.findIndex((each) => compare(each, key) === 0) === index).toSorted(compare)
        added.push(...sorted)
        const end = sorted.at(-1)
        if (end !== undefined && compare(end, last) > 0) last = end
        window.add(sorted, last)
      }
      const beginMs = Date.parse(last.c) - 5_000
      for (const row of added)
        if (Date.parse(row.c) >= beginMs && (window.floor === undefined || compare(row, window.floor) > 0))
          expect(window.has(row)).toBe(true)
    }),
  )
})
