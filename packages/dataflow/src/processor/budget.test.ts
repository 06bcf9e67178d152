import { expect, test } from 'vitest'
import { OpenBudget } from './budget.ts'

test('a spent budget makes whoever asks for room wait until enough was given back', async () => {
  const budget = new OpenBudget(100)
  await budget.room()
  budget.take(150)
  expect(budget.isSpent).toBe(true)
  let hasRoom = false
  const waiting = budget.room().then(() => (hasRoom = true))
  budget.give(40)
  await Promise.resolve()
  expect(hasRoom).toBe(false)
  budget.give(20)
  await waiting
  expect(budget.bytes).toBe(90)
})

test('too many positions spend the budget as well as too many bytes', async () => {
  const budget = new OpenBudget(100, 3)
  budget.movePositions(3)
  expect(budget.isSpent).toBe(true)
  const waiting = budget.room()
  budget.movePositions(-1)
  await waiting
})

test('a signal ends the wait for room', async () => {
  const budget = new OpenBudget(1)
  budget.take(1)
  const stop = new AbortController()
  const waiting = budget.room(stop.signal)
  stop.abort(new Error('stop'))
  await expect(waiting).rejects.toThrow('stop')
})
