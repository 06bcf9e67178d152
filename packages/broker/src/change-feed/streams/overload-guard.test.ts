import { expect, test } from 'vitest'
import { decideShedding } from './overload-guard.ts'

const limits = { loopDelayMs: 100, memory: 0.8 }

test.each([
  ['nothing is wrong', { loopDelayMs: 20, memory: 0.5 }, 0, { refuse: false }],
  ['at its limits', { loopDelayMs: 100, memory: 0.8 }, 100, { refuse: false }],
  ['the loop is slow', { loopDelayMs: 101, memory: 0.5 }, 0, { refuse: true, close: 0 }],
  ['memory is full', { loopDelayMs: 1, memory: 0.81 }, 9, { refuse: true, close: 0 }],
  ['for ten seconds', { loopDelayMs: 101, memory: 0.5 }, 10, { refuse: true, close: 5 }],
])('%s', (_what, pressure, seconds, expected) => {
  expect(decideShedding(pressure, limits, { seconds, streams: 100 })).toEqual(expected)
})
