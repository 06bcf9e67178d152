import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Arrival, type LaneFaults, type LaneState, nextStep, noFaults } from './fault-step.ts'

const data: Arrival = { atMs: 1_000, is: 'data', data: Buffer.alloc(100) }
const end: Arrival = { atMs: 1_000, is: 'end' }
const reset: Arrival = { atMs: 1_000, is: 'reset' }
const forever = { do: 'wait', ms: Number.POSITIVE_INFINITY }

describe('a lane without faults', () => {
  test.each([
    ['waits while nothing arrives', undefined, forever],
    ['passes a whole chunk', data, { do: 'pass', bytes: 100, restMs: 0 }],
    ['passes the end', end, { do: 'end' }],
    ['passes a reset', reset, { do: 'reset' }],
  ])('%s', (_, first, step) => {
    expect(next({ first })).toEqual(step)
  })
})

test.each([
  ['half-open holds data', { first: data }, { halfOpen: true }, forever],
  ['half-open holds an end', { first: end }, { halfOpen: true }, forever],
  ['half-open holds a reset', { first: reset }, { halfOpen: true }, forever],
  ['half-open holds back even a limit that is reached', { first: data }, { halfOpen: true, limit: { bytes: 0, end: 'reset' } }, forever],
  ['a delay counts from arrival', { first: data }, { delayMs: 250 }, { do: 'wait', ms: 250 }],
  ['a delay that is over lets pass', { first: data }, { delayMs: 0 }, { do: 'pass', bytes: 100, restMs: 0 }],
  ['a delay holds for the end, too', { first: end }, { delayMs: 5 }, { do: 'wait', ms: 5 }],
  ['a throttle passes a fiftieth of a second', { first: data }, { bytesPerSecond: 500 }, { do: 'pass', bytes: 10, restMs: 20 }],
  ['a throttle rests', { first: data, restUntilMs: 1_007 }, { bytesPerSecond: 500 }, { do: 'wait', ms: 7 }],
  ['a throttle of one byte per second passes one byte', { first: data }, { bytesPerSecond: 1 }, { do: 'pass', bytes: 1, restMs: 1_000 }],
  ['a rest ends when the throttle is taken away', { first: data, restUntilMs: 9_999 }, {}, { do: 'pass', bytes: 100, restMs: 0 }],
  [
    'a limit cuts the chunk that crosses it',
    { first: data, passed: 30 },
    { limit: { bytes: 50, end: 'reset' } },
    { do: 'pass', bytes: 20, restMs: 0 },
  ],
  ['a reached limit resets without further bytes', { passed: 50 }, { limit: { bytes: 50, end: 'reset' } }, { do: 'reset' }],
  ['a reached limit truncates', { first: data, passed: 50 }, { limit: { bytes: 50, end: 'truncate' } }, { do: 'truncate' }],
  ['a truncated lane swallows data', { first: data, truncated: true }, {}, { do: 'drop' }],
  ['a truncated lane swallows the end', { first: end, truncated: true }, {}, { do: 'drop' }],
  ['a truncated lane still passes a reset', { first: reset, truncated: true }, {}, { do: 'reset' }],
  ['a truncated lane waits', { truncated: true }, { limit: { bytes: 0, end: 'truncate' } }, forever],
] as [string, Partial<LaneState>, Partial<LaneFaults>, object][])('%s', (_, state, faults, step) => {
  expect(next(state, faults)).toEqual(step)
})

test('a step passes at least one byte, at most the available ones and the limit', () => {
  const cases = fc.record({
    length: fc.integer({ min: 1, max: 5_000 }),
    bytesPerSecond: fc.nat(100_000),
    passed: fc.nat(99),
    limit: fc.integer({ min: 100, max: 10_000 }),
  })
  fc.assert(
    fc.property(cases, ({ length, bytesPerSecond, passed, limit }) => {
      const first: Arrival = { atMs: 0, is: 'data', data: Buffer.alloc(length) }
      const step = next({ first, passed }, { bytesPerSecond, limit: { bytes: limit, end: 'reset' } })
      const bytes = step.do === 'pass' ? step.bytes : 0
      expect(bytes).toBeGreaterThan(0)
      expect(bytes).toBeLessThanOrEqual(Math.min(length, limit - passed))
    }),
  )
})

function next(state: Partial<LaneState>, faults: Partial<LaneFaults> = {}) {
  return nextStep({ first: undefined, passed: 0, restUntilMs: 0, truncated: false, ...state }, { ...noFaults, ...faults }, 1_000)
}
