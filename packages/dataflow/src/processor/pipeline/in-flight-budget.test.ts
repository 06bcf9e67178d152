import { expect, test } from 'vitest'
import { InFlightBudget } from './in-flight-budget.ts'

test('a spent budget blocks waiters until enough bytes are released', async () => {
  const budget = new InFlightBudget(100)
  await budget.room()
  budget.reserve(150)
  expect(budget.isSpent).toBe(true)
  let hasRoom = false
  const waiting = budget.room().then(() => (hasRoom = true))
  budget.release(40)
  await Promise.resolve()
  expect(hasRoom).toBe(false)
  budget.release(20)
  await waiting
  expect(budget.bytes).toBe(90)
})

test('too many positions spend the budget as well as too many bytes', async () => {
  const budget = new InFlightBudget(100, 3)
  budget.addPositions(3)
  expect(budget.isSpent).toBe(true)
  const waiting = budget.room()
  budget.addPositions(-1)
  await waiting
})

test('a signal ends the wait for room', async () => {
  const budget = new InFlightBudget(1)
  budget.reserve(1)
  const stop = new AbortController()
  const waiting = budget.room(stop.signal)
  stop.abort(new Error('stop'))
  await expect(waiting).rejects.toThrow('stop')
})
