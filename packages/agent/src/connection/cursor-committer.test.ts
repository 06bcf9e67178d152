import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CursorCommitter } from './cursor-committer.ts'

test('a cursor is stored at once if no work is pending', () => {
  const kept: string[] = []
  const gate = new CursorCommitter((cursor) => kept.push(cursor))
  gate.offer('a')
  gate.offer('b')
  expect(kept).toEqual(['a', 'b'])
})

test('a cursor is stored after all earlier frames are applied', () => {
  const anyStep = fc.oneof(
    fc.record({ do: fc.constant('begin' as const), item: fc.integer({ min: 0, max: 5 }) }),
    fc.record({ do: fc.constant('done' as const), item: fc.integer({ min: 0, max: 5 }) }),
    fc.record({ do: fc.constant('offer' as const) }),
  )
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 40 }), (steps) => {
      const open = new Map<number, string>()
      const before = new Map<string, readonly string[]>()
      let kept: string | null = null
      let last: string | null = null
      const gate = new CursorCommitter((cursor) => {
        kept = cursor
        expect((before.get(cursor) ?? []).filter((name) => [...open.values()].includes(name))).toEqual([])
      })
      const close = (item: number) => {
        const name = open.get(item)
        open.delete(item)
        if (name !== undefined) gate.done(name)
      }
      for (const [index, step] of steps.entries()) {
        if (step.do === 'begin') {
          close(step.item)
          // Names never come again, as the ids of contents do not.
          open.set(step.item, `item ${index}`)
          gate.begin(`item ${index}`)
        } else if (step.do === 'done') close(step.item)
        else {
          last = `cursor ${index}`
          before.set(last, [...open.values()])
          gate.offer(last)
        }
      }
      for (const item of open.keys()) close(item)
      expect(kept).toBe(last)
    }),
  )
})
