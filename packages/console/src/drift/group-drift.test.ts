import type { AgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import { expect, test } from 'vitest'
import { groupDrift } from './group-drift.ts'

const event = (agent_id: string, created_at: string, path: string, manager: string | null): AgentEvent =>
  ({
    agent_id,
    created_at,
    occurred_at: null,
    changes: [{ kind: 'ConfigMap', namespace: 'shop', name: 'flags', path, manager }],
  }) as unknown as AgentEvent

test('the same field and manager on several clusters is one group, the widest first', () => {
  const groups = groupDrift([
    event('a', '2026-01-01T00:00:00Z', '.data.beta', 'kubectl-edit'),
    event('b', '2026-01-02T00:00:00Z', '.data.beta', 'kubectl-edit'),
    event('a', '2026-01-03T00:00:00Z', '.spec.replicas', null),
  ])
  expect(groups.map(({ field, manager, agentIds, firstAt, lastAt }) => [field, manager, agentIds.length, firstAt, lastAt])).toEqual([
    ['.data.beta', 'kubectl-edit', 2, '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'],
    ['.spec.replicas', 'unknown manager', 1, '2026-01-03T00:00:00Z', '2026-01-03T00:00:00Z'],
  ])
})
