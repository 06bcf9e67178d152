import { expect, test } from 'vitest'
import { type Condition, dropCondition, isTrue, setCondition } from './conditions.ts'

const t0 = Date.parse('2026-01-01T00:00:00.900Z')
const news = { type: 'Ready', status: 'False', reason: 'NotYet', message: 'wait' } as const

test('the transition time changes only with the status', () => {
  const first = setCondition([], news, t0)
  expect(first).toEqual([{ ...news, lastTransitionTime: '2026-01-01T00:00:00Z' }])
  const second = setCondition(first, { ...news, message: 'still' }, t0 + 60_000)
  expect(second).toEqual([{ ...news, message: 'still', lastTransitionTime: '2026-01-01T00:00:00Z' }])
  const third = setCondition(second, { ...news, status: 'True', reason: 'Done' }, t0 + 120_000)
  expect(third[0]).toMatchObject({ status: 'True', lastTransitionTime: '2026-01-01T00:02:00Z' })
})

test('an equal condition returns the same list, and other conditions keep their order', () => {
  const list = setCondition(setCondition([], news, t0), { ...news, type: 'Other' }, t0)
  expect(setCondition(list, news, t0 + 1)).toBe(list)
  expect(setCondition(list, { ...news, observedGeneration: 2 }, t0).map(({ type }) => type)).toEqual(['Ready', 'Other'])
  expect(dropCondition(list, 'Ready').map(({ type }) => type)).toEqual(['Other'])
  expect(dropCondition(list, 'None')).toBe(list)
})

test('a message is truncated to 20,000 characters', () => {
  const [cut] = setCondition([], { ...news, message: 'x'.repeat(30_000) }, t0) as [Condition]
  expect([cut.message.length, cut.message.slice(-4)]).toEqual([20_000, 'x...'])
})

test.each([
  [{ status: { conditions: [{ type: 'Ready', status: 'True' }] } }, true],
  [{ status: { conditions: [{ type: 'Ready', status: 'False' }] } }, false],
  [{ status: { conditions: 'nonsense' } }, false],
  [undefined, false],
])('isTrue of %j', (object, expected) => {
  expect(isTrue(object, 'Ready')).toBe(expected)
})
