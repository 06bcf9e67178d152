import fc from 'fast-check'
import { expect, test } from 'vitest'
import { addJitter, backoffDelayMs, randomBetween } from './backoff.ts'

test.each([
  [0, 2_000],
  [1, 4_000],
  [2, 8_000],
  [3, 16_000],
  [8, 300_000],
  [10_000, 300_000],
  [-1, 2_000],
  [Number.NaN, 2_000],
  [1.9, 4_000],
])('attempt %d waits %d ms', (attempt, expected) => {
  expect(backoffDelayMs({ baseMs: 2_000, maxMs: 300_000 }, attempt)).toBe(expected)
})

test('another factor, and a base of nothing', () => {
  expect(backoffDelayMs({ baseMs: 100, maxMs: 10_000, factor: 3 }, 2)).toBe(900)
  expect(backoffDelayMs({ baseMs: 0, maxMs: 10_000 }, 2_000)).toBe(0)
})

test('jitter stays within its bounds for every policy and attempt', () => {
  const policy = fc.record({
    baseMs: fc.integer({ min: 0, max: 60_000 }),
    maxMs: fc.integer({ min: 60_000, max: 3_600_000 }),
    factor: fc.double({ min: 1, max: 10, noNaN: true }),
  })
  fc.assert(
    fc.property(policy, fc.integer({ min: 0, max: 5_000 }), (shape, attempt) => {
      const step = backoffDelayMs(shape, attempt)
      const full = backoffDelayMs({ ...shape, jitter: 'full' }, attempt)
      const equal = backoffDelayMs({ ...shape, jitter: 'equal' }, attempt)
      expect(step >= 0 && step <= shape.maxMs && full >= 0 && full <= step && equal >= step / 2 && equal <= step).toBe(true)
    }),
  )
})

test('jittered moves a value by a share of itself, uniform keeps to its ends', () => {
  const moved = Array.from({ length: 200 }, () => addJitter(1_000, 0.1))
  expect(Math.min(...moved)).toBeGreaterThanOrEqual(900)
  expect(Math.max(...moved)).toBeLessThanOrEqual(1_100)
  expect(new Set(moved).size).toBeGreaterThan(100)
  expect(randomBetween(5, 5)).toBe(5)
})
