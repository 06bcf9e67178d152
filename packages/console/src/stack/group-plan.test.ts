import type { PlanChange, PlanResult } from '@brokkr/contract/plans/plan.ts'
import { expect, test } from 'vitest'
import { groupPlan } from './group-plan.ts'

const change = (kind: string, name: string, what: PlanChange['change']): PlanChange => ({
  group: '',
  kind,
  namespace: 'shop',
  name,
  change: what,
  fields: [],
  guard: null,
  message: null,
})
const result = (agent: string, state: PlanResult['state'], changes: PlanChange[] = [], reason: string | null = null): PlanResult => ({
  agent_id: agent as PlanResult['agent_id'],
  agent_name: agent,
  cluster_name: agent,
  state,
  reason,
  at: null,
  summary: state === 'answered' ? { create: 0, update: 0, delete: changes.length, unchanged: 2, denied: 0, unchecked: 0 } : null,
  changes,
  has_more: false,
})

test('equal changes of many clusters are one group; deletions of data come first', () => {
  const changes = [
    change('ConfigMap', 'flags', 'update'),
    change('Service', 'web', 'delete'),
    change('PersistentVolumeClaim', 'db', 'delete'),
  ]
  const {
    groups,
    answered,
    changes: total,
  } = groupPlan([result('fra-1', 'answered', changes), result('fra-2', 'answered', changes.slice(1))])
  expect(groups.map(({ change: what, kind, clusters, holdsData }) => [what, kind, clusters.length, holdsData])).toEqual([
    ['delete', 'PersistentVolumeClaim', 2, true],
    ['delete', 'Service', 2, false],
    ['update', 'ConfigMap', 1, false],
  ])
  expect([answered, total]).toEqual([2, 5])
})

test('agents without an answer are named and are not counted as unchanged', () => {
  const grouped = groupPlan([result('a', 'silent', [], 'disconnected'), result('b', 'refused', [], 'policy'), result('c', 'waiting')])
  expect(grouped).toMatchObject({ answered: 0, waiting: 1, changes: 0, groups: [] })
  expect(grouped.missing).toEqual([
    { agent: 'a', state: 'silent', reason: 'disconnected' },
    { agent: 'b', state: 'refused', reason: 'policy' },
  ])
  expect(grouped.incomplete).toEqual([])
})

test('agents whose changes were left out of the answer are named', () => {
  const whole = result('a', 'answered', [change('Service', 'web', 'delete')])
  expect(groupPlan([whole, { ...result('b', 'answered'), has_more: true }]).incomplete).toEqual(['b'])
})
