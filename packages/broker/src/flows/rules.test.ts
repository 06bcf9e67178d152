import type { HealthReport } from '@brokkr/contract/health/deployment-health.ts'
import { expect, test } from 'vitest'
import { listReportedFlows, toAuditDetails } from './rules.ts'

const flow = (name: string, namespace = 'shop') => ({ kind: 'DataFlow', name, namespace, ready: true })
const report = (summary: Partial<NonNullable<HealthReport['summary']>>) =>
  ({
    id: '1',
    status: 'healthy',
    checked_at: '2026-01-02T03:04:05Z',
    summary: { pods_ready: 0, pods_total: 0, conditions: [], ...summary },
  }) as unknown as HealthReport
const list = (length: number) => Array.from({ length }, (_, n) => flow(`f${n}`))

test.each([
  ['short', { resources: list(99) }, true],
  ['short and not cut', { resources: list(1), truncated: false }, true],
  ['short, but cut', { resources: list(50), truncated: true }, false],
  ['full', { resources: list(100) }, false],
])('whether a list that is %s is complete', (_, summary, isComplete) => {
  expect(listReportedFlows([report(summary)]).objects.map(({ is_complete }) => is_complete)).toEqual([isComplete])
})

test('names that are longer than those of Kubernetes objects are left out', () => {
  const resources = [flow('n'.repeat(253), 's'.repeat(253)), flow('n'.repeat(254)), flow('n', 's'.repeat(254))]
  expect(listReportedFlows([report({ resources })]).flows).toMatchObject([resources[0]])
})

test('the audit entry says where a flow was rewound to and what was skipped, within bounds', () => {
  expect(toAuditDetails({ action: 'pause' })).toEqual({})
  expect(toAuditDetails({ action: 'rewind', to: 'earliest' })).toEqual({ to: '"earliest"' })
  expect(toAuditDetails({ action: 'skip', position: 'in[0]=7' })).toEqual({ position: 'in[0]=7' })
  const cut = toAuditDetails({ action: 'skip', position: `x${'😀'.repeat(2_000)}` })['position']
  expect([cut?.length, cut?.isWellFormed()]).toEqual([500, true])
})
