import { expect, test } from 'vitest'
import { decideHold, mayChangeHold } from './rules.ts'

const at = (sequence_id: number) => ({ id: `o${sequence_id}`, sequence_id })

test.each([
  ['an empty stack', null, null, 'no deployment object yet'],
  ['an unknown number', at(3), null, 'no live deployment object'],
  ['an older number', at(3), at(2), 'roll back to sequence 2'],
])('a hold on %s is refused with what to do next', (_, wanted, asked, text) => {
  expect(decideHold(wanted, asked)).toMatchObject({ do: 'refuse', reason: expect.stringContaining(text) })
})

test.each([
  ['the wanted object', at(3), at(3), false],
  ['a newer object', at(3), at(4), true],
])('a hold on %s takes a number only if the wanted object changes', (_, wanted, asked, takesNumber) => {
  expect(decideHold(wanted, asked)).toEqual({ do: 'hold', object: asked, takesNumber })
})

test.each([
  [null, 'generator', true],
  [{ by_kind: 'generator' }, 'generator', true],
  [{ by_kind: 'generator' }, 'admin', true],
  [{ by_kind: 'admin' }, 'admin', true],
  [{ by_kind: 'admin' }, 'generator', false],
] as const)('the hold %j may be changed by a caller of kind %s: %s', (hold, kind, expected) => {
  expect(mayChangeHold(hold, { kind })).toBe(expected)
})
