import type { Flow } from '@brokkr/contract/flows/flow.ts'
import { expect, test } from 'vitest'
import { describeFlow, flowState, formatLag, formatRate } from './flow-words.ts'

type Part = Pick<Flow, 'state' | 'stale' | 'report'>

test.each<[Part, string, string]>([
  [{ state: 'running', stale: false, report: { lag: { seconds: 2 } } }, 'current', 'running'],
  [{ state: 'running', stale: false, report: { lag: { seconds: 48 } } }, 'behind', 'lags 48 s'],
  [{ state: 'running', stale: true, report: { lag: { seconds: 48 } } }, 'stale', 'running, figures are old'],
  [{ state: 'running', stale: false, report: { paused: true } }, 'held', 'paused'],
  [{ state: 'blocked', stale: false, report: null }, 'failing', 'blocked'],
  [{ state: 'error', stale: false, report: null }, 'failing', 'error'],
  [{ state: 'unknown', stale: false, report: null }, 'unknown', 'unknown'],
])('%j is %s: %s', (flow, state, words) => {
  expect([flowState(flow), describeFlow(flow)]).toEqual([state, words])
})

test.each<[Flow['report'], string | null, string | null]>([
  [null, null, null],
  [{}, null, null],
  [{ per_second: 0, lag: { seconds: 0 } }, '0.0 /s', '0 s'],
  [{ per_second: 312.4, lag: { messages: 12_400 } }, '312 /s', '12,400 messages'],
  [{ per_second: 3.25, lag: { seconds: 600, messages: 4 } }, '3.3 /s', '10 min'],
])('figures of %j are %s and %s', (report, rate, lag) => {
  expect([formatRate(report), formatLag(report)]).toEqual([rate, lag])
})
