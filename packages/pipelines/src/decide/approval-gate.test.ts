import type { Decision } from '@brokkr/contract/pipelines/promotion.ts'
import { expect, test } from 'vitest'
import { evaluateGate } from './approval-gate.ts'

const decide = (subject: string, decision: Decision['decision'] = 'approve', more: Partial<Decision> = {}): Decision => ({
  subject,
  decision,
  key: 'k',
  at: '2026-01-01T00:00:00Z',
  ...more,
})
const gate = (approval: Parameters<typeof evaluateGate>[0]['approval'], decisions: Decision[], actor?: string) =>
  evaluateGate({ approval, decisions, key: 'k', cause: { kind: 'manual', ...(actor ? { actor } : {}) } })

test.each([
  ['no decision', {}, [], 'waiting'],
  ['one approval of one', {}, [decide('user:a')], 'open'],
  ['one approval of two', { minApprovals: 2 }, [decide('user:a')], 'waiting'],
  ['two approvals of two', { minApprovals: 2 }, [decide('user:a'), decide('user:b')], 'open'],
  ['an approval and a reject', {}, [decide('user:a'), decide('user:b', 'reject')], 'rejected'],
  ['an approval of another key', {}, [decide('user:a', 'approve', { key: 'old' })], 'waiting'],
  ['an approver that is not listed', { approvers: ['user:b'] }, [decide('user:a')], 'waiting'],
  ['a reject by a subject that is not listed', { approvers: ['user:b'] }, [decide('user:b'), decide('user:a', 'reject')], 'open'],
  ['a member of a listed group', { approvers: ['group:sre'] }, [decide('user:a', 'approve', { groups: ['sre'] })], 'open'],
  ['the initiator', {}, [decide('user:me')], 'waiting'],
  ['the initiator where it may', { forbidInitiator: false }, [decide('user:me')], 'open'],
] as const)('the gate with %s is decided', (_what, approval, decisions, state) => {
  const { approvers, ...rest } = approval as { approvers?: readonly string[] }
  expect(gate({ ...rest, ...(approvers ? { approvers: [...approvers] } : {}) }, [...decisions], 'user:me').state).toBe(state)
})
