import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import { expect, test } from 'vitest'
import { readMaintenance } from './maintenance.ts'

const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['a:1'], topic } })

function at(now: string, maintenance: object) {
  const { flow, problems } = normalize({ source: kafka('a'), sink: kafka('b'), maintenance }, { patterns: re2 })
  if (flow === undefined) throw new Error(JSON.stringify(problems))
  const { untilMs, nextMs, lastMs, isSuspended } = readMaintenance(flow.maintenance, Date.parse(now))
  const text = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString().slice(0, 16))
  return { until: text(untilMs), next: text(nextMs), last: text(lastMs), isSuspended }
}

const weekly = { startTime: '2026-03-21T02:30:00+01:00', duration: '2h', repeat: 'weekly', timezone: 'Europe/Berlin' }
const monthly = { startTime: '2026-01-31T22:00:00Z', duration: '3h', repeat: 'monthly' }
const daily = { startTime: '2026-01-01T23:00:00Z', duration: '2h', repeat: 'daily' }
const once = { startTime: '2026-05-01T10:00:00Z', duration: '1h' }

test.each([
  [
    'a weekly window keeps its local hour across a clock change',
    '2026-03-29T00:00:00Z',
    weekly,
    { last: '2026-03-28T01:30', next: '2026-04-04T00:30' },
  ],
  ['inside a weekly window in summer time', '2026-04-04T01:00:00Z', weekly, { until: '2026-04-04T02:30', last: '2026-04-04T00:30' }],
  [
    'a monthly window on the 31st is on the last day of February',
    '2026-02-28T23:00:00Z',
    monthly,
    { until: '2026-03-01T01:00', next: '2026-03-31T22:00' },
  ],
  [
    'a daily window that began the day before counts',
    '2026-01-03T00:30:00Z',
    daily,
    { until: '2026-01-03T01:00', last: '2026-01-02T23:00', next: '2026-01-03T23:00' },
  ],
  ['before the first window', '2025-12-31T23:30:00Z', daily, { until: undefined, last: undefined, next: '2026-01-01T23:00' }],
  ['inside a single window', '2026-05-01T10:30:00Z', once, { until: '2026-05-01T11:00', next: undefined }],
  ['after a single window', '2026-05-01T11:00:00Z', once, { until: undefined, next: undefined, last: '2026-05-01T10:00' }],
  [
    'suspended beside a window',
    '2026-05-01T09:00:00Z',
    { ...once, suspended: true },
    { isSuspended: true, until: undefined, next: '2026-05-01T10:00' },
  ],
])('[D117] %s', (_title, now, maintenance, wanted) => {
  expect(at(now, maintenance)).toMatchObject(wanted)
})
