import type { Decision, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import type { Approval } from '@brokkr/contract/pipelines/strategy.ts'
import { expect, test } from 'vitest'
import { type PromotionRecord, toPromotionRecord } from '../objects.ts'
import { addDecision } from './decision-store.ts'
import type { NewDecision } from './decisions.ts'

const key = 'j6l2wrcfw5hppn6qeadu'
const nowMs = Date.parse('2026-01-01T01:00:00Z')
const by = (subject: string, decision: Decision['decision'] = 'approve'): Decision => ({
  subject,
  decision,
  key,
  at: '2026-01-01T00:30:00Z',
})
const order = (subject: string, decision: Decision['decision'] = 'approve', more: Partial<NewDecision> = {}): NewDecision => ({
  subject,
  groups: [],
  decision,
  key,
  message: undefined,
  via: 'hook',
  ...more,
})

function promotion(approval: Approval, approvals: Decision[] = [], status: Partial<PromotionStatus> = {}): PromotionRecord {
  const record = toPromotionRecord({
    apiVersion: 'pipelines.brokkr.io/v1alpha1',
    kind: 'Promotion',
    metadata: { name: 'p', namespace: 'shop' },
    spec: {
      pipelineRef: { name: 'podinfo', uid: 'u' },
      run: 1,
      environment: 'prod',
      revision: '1',
      series: 1,
      key,
      cause: { kind: 'manual', actor: 'user:me' },
      strategy: { notification: {} },
      approval,
      supersede: 'Close',
      attempts: 10,
      attemptAge: '24h',
      soak: '0s',
    },
    status: { phase: 'AwaitingApproval', phaseSince: '2026-01-01T00:00:00Z', approvals, ...status },
  })
  if (record === null) throw new Error('the promotion does not parse')
  return record
}

test.each([
  ['a first approval', promotion({}), order('user:a'), 'write'],
  ['a repeated approval', promotion({ minApprovals: 2 }, [by('user:a')]), order('user:a'), 'keep'],
  ['a repeated approval after the gate opened', promotion({}, [by('user:a')], { phase: 'Applied' }), order('user:a'), 'keep'],
  ['a changed mind', promotion({ minApprovals: 2 }, [by('user:a')]), order('user:a', 'reject'), 'write'],
  ['a changed mind after the gate opened', promotion({}, [by('user:a')]), order('user:a', 'reject'), 'refuse'],
  ['an approval after a reject', promotion({ minApprovals: 2 }, [by('user:a', 'reject')]), order('user:b'), 'refuse'],
  ['a reject that is taken back', promotion({}, [by('user:a', 'reject')]), order('user:a'), 'refuse'],
  ['another key', promotion({}), order('user:a', 'approve', { key: 'old' }), 'refuse'],
  ['an approval after the deadline', promotion({ deadline: '1h' }), order('user:a'), 'refuse'],
  ['an approval before the deadline', promotion({ deadline: '61m' }), order('user:a'), 'write'],
  ['a subject that is not listed', promotion({ approvers: ['user:b'] }), order('user:a'), 'forbid'],
  ['a member of a listed group', promotion({ approvers: ['group:sre'] }), order('user:a', 'approve', { groups: ['sre'] }), 'write'],
  ['the initiator', promotion({}), order('user:me'), 'forbid'],
  ['a reject by the initiator', promotion({}), order('user:me', 'reject'), 'write'],
  ['the initiator where it may', promotion({ forbidInitiator: false }), order('user:me'), 'write'],
  ['a promotion that is queued', promotion({}, [], { phase: 'Queued' }), order('user:a'), 'refuse'],
] as const)('the decision in the case of %s is checked', (_what, record, decision, outcome) => {
  expect(addDecision(record, decision, nowMs).do).toBe(outcome)
})

test('a subject has one entry, and its newest decision counts', () => {
  const change = addDecision(promotion({ minApprovals: 3 }, [by('user:a'), by('user:b')]), order('user:a', 'reject'), nowMs)
  const entries = change.do === 'write' ? change.approvals.map(({ subject, decision }) => [subject, decision]) : []
  expect(entries).toEqual([
    ['user:b', 'approve'],
    ['user:a', 'reject'],
  ])
})

test('the number of decisions is bounded', () => {
  const many = Array.from({ length: 200 }, (_, index) => by(`user:${index}`))
  expect(addDecision(promotion({ approvers: ['user:x'] }, many), order('user:x'), nowMs).do).toBe('forbid')
})
