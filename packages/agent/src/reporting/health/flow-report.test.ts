import { FlowReport } from '@brokkr/contract/flows/flow-report.ts'
import { healthSummaryBytesMax } from '@brokkr/contract/health/deployment-health.ts'
import { expect, test } from 'vitest'
import { fitSummary, isFlow, toFlowReport } from './flow-report.ts'

const flow = (status?: Record<string, unknown>) => ({
  apiVersion: 'dataflow.dataflow.io/v1',
  kind: 'DataFlow',
  metadata: { name: 'f', namespace: 'n' },
  ...(status === undefined ? {} : { status }),
})
const status = {
  phase: 'Running',
  message: '1/1 processors ready',
  readCount: 6,
  processedCount: 5,
  writtenCount: 4,
  droppedCount: 1,
  errorCount: 0,
  processedPerSecond: 2.5,
  lag: { messages: 2 },
  position: 'orders[0]=12',
  progress: { observedAt: 't', stale: false },
  conditions: [{ type: 'Ready', status: 'True', reason: 'Running', message: '' }],
}

test('the report holds the figures of the status', () => {
  const report = JSON.parse(JSON.stringify(toFlowReport(flow(status)))) as unknown
  expect(report).toEqual({
    phase: 'Running',
    message: '1/1 processors ready',
    read: 6,
    processed: 5,
    written: 4,
    dropped: 1,
    errors: 0,
    per_second: 2.5,
    lag: { messages: 2 },
    position: 'orders[0]=12',
    observed_at: 't',
    conditions: [{ type: 'Ready', status: 'True', reason: 'Running', message: '' }],
  })
  expect(FlowReport.parse(report)).toEqual(report)
})

test.each([
  ['no status', undefined, {}],
  ['a stopped flow', { phase: 'Stopped', message: 'paused by hand' }, { phase: 'Stopped', message: 'paused by hand', paused: true }],
  ['a silent processor', { phase: 'Running', progress: { stale: true } }, { phase: 'Running', stale: true }],
  ['values of wrong types', { phase: 3, readCount: 'x', lag: 7, blocked: [], conditions: {} }, {}],
])('the report of %s has no other figures', (_, given, wanted) => {
  expect(JSON.parse(JSON.stringify(toFlowReport(flow(given))))).toEqual(wanted)
})

test('a report stays within 4 KiB and keeps phase and counts', () => {
  const long = 'ä'.repeat(5_000)
  const conditions = Array.from({ length: 40 }, (_, n) => ({ type: `T${n}`, status: 'True', reason: long, message: long }))
  const report = toFlowReport(flow({ ...status, conditions, position: long, blocked: { stage: 'sink', message: long, position: long } }))
  expect(Buffer.byteLength(JSON.stringify(report))).toBeLessThanOrEqual(4096)
  expect(report).toMatchObject({ phase: 'Running', processed: 5, blocked: { stage: 'sink' } })
  // A cut position would name another message.
  expect(report.blocked?.position).toBeUndefined()
})

test('a summary of many flows fits into the size that the broker accepts', () => {
  const conditions = Array.from({ length: 8 }, (_, n) => ({ type: `Type${n}`, status: 'True', reason: 'Reason', message: 'm'.repeat(200) }))
  const resources = Array.from({ length: 100 }, (_, n) => ({
    kind: 'DataFlow',
    name: `flow-${n}`,
    namespace: 'shop',
    ready: false,
    message: 'x'.repeat(500),
    flow: toFlowReport(flow({ ...status, conditions })),
  }))
  const summary = { pods_ready: 0, pods_total: 0, conditions: [], resources, progressing: false }
  const fitted = fitSummary(summary)
  expect(Buffer.byteLength(JSON.stringify(fitted))).toBeLessThanOrEqual(healthSummaryBytesMax)
  expect(fitted.resources).toHaveLength(100)
  expect(fitted.resources?.every((row) => row.flow?.processed === 5)).toBe(true)
  expect(fitted.truncated).toBeUndefined()
  expect(fitSummary({ ...summary, resources: resources.slice(0, 2) }).resources).toEqual(resources.slice(0, 2))
})

test('a summary whose list of resources was cut to fit is marked', () => {
  const resources = Array.from({ length: 99 }, (_, n) => ({
    kind: 'DataFlow',
    name: `${'n'.repeat(249)}-${n}`,
    namespace: 's'.repeat(253),
    ready: false,
    message: 'ä'.repeat(500),
  }))
  const fitted = fitSummary({ pods_ready: 0, pods_total: 0, conditions: [], resources, progressing: false })
  expect(Buffer.byteLength(JSON.stringify(fitted))).toBeLessThanOrEqual(healthSummaryBytesMax)
  expect([fitted.resources?.length, fitted.truncated]).toEqual([50, true])
})

test('flows are told from other kinds by their group', () => {
  expect(isFlow({ group: 'dataflow.dataflow.io', kind: 'DataFlowCron' })).toBe(true)
  expect(isFlow({ group: 'example.com', kind: 'DataFlow' })).toBe(false)
})
