import type { TimelineEntry } from '@brokkr/contract/timeline/timeline.ts'
import { expect, test } from 'vitest'
import { describeEntry, entryState, laneOf, toMarks, toTicks } from './timeline-model.ts'

const entry = (change: Partial<TimelineEntry>): TimelineEntry => ({
  id: '1',
  kind: 'change',
  action: 'stack.held',
  status: null,
  at: '2026-05-12T10:30:00.000000Z',
  since: '2026-05-12T10:30:00.000000Z',
  records: 1,
  agents: 0,
  agent_id: null,
  agent_name: null,
  actor_type: 'admin',
  actor_id: null,
  actor_name: 'admin',
  stack_id: 's' as TimelineEntry['stack_id'],
  stack_name: 'shop',
  deployment_object_id: null,
  sequence_id: null,
  resource_type: 'stack',
  resource_id: null,
  resource_name: null,
  message: null,
  ...change,
})
const deployment = { kind: 'deployment', action: 'deployment.created', sequence_id: 7 } as const
const applied = { kind: 'agent', action: 'DEPLOY', status: 'SUCCESS', sequence_id: 7, agents: 3, records: 3 } as const

test.each<[Partial<TimelineEntry>, string, string, string]>([
  [deployment, 'shop 7 submitted', 'versions', 'progressing'],
  [{ ...deployment, records: 3 }, 'shop 7 submitted and 2 earlier', 'versions', 'progressing'],
  [{ ...deployment, action: 'deployment.rolled_back' }, 'shop 7 rolled back', 'versions', 'progressing'],
  [applied, 'shop 7 applied on 3 clusters', 'applied', 'current'],
  [{ ...applied, agents: 1, agent_name: 'fra-1', status: 'FAILURE' }, 'shop 7 failed on fra-1', 'applied', 'failing'],
  [{ ...applied, action: 'DRIFT', status: 'FAILURE' }, 'shop 7 drifted on 3 clusters', 'drift', 'degraded'],
  [{}, 'stack shop held', 'changes', 'held'],
  [{ action: 'stack.deleted', records: 2 }, 'stack shop deleted and 1 more', 'changes', 'failing'],
  [
    { action: 'agent.created', stack_id: null, stack_name: null, resource_name: 'a\u202eb' },
    'agent a\\u202eb created',
    'changes',
    'progressing',
  ],
  [{ ...deployment, stack_name: null }, 'a deleted stack 7 submitted', 'versions', 'progressing'],
])('%j is described as "%s"', (change, text, lane, state) => {
  expect([describeEntry(entry(change)), laneOf(entry(change)), entryState(entry(change))]).toEqual([text, lane, state])
})

test('entries of one lane and column are one mark with the worst state; others have none', () => {
  const range = { fromMs: Date.parse('2026-05-12T10:00:00Z'), toMs: Date.parse('2026-05-12T11:00:00Z'), columns: 60 }
  const marks = toMarks(
    [
      entry({ ...applied, at: '2026-05-12T10:30:40Z' }),
      entry({ ...applied, status: 'FAILURE', records: 1 }),
      entry({ at: '2026-05-12T11:00:00Z' }),
      entry({ at: '2026-05-12T09:59:59Z' }),
    ],
    range,
  )
  expect(marks.map(({ id, records, state }) => [id, records, state])).toEqual([
    ['applied-30', 4, 'failing'],
    ['changes-59', 1, 'held'],
  ])
})

test.each([1, 24, 24 * 7, 24 * 30])('the axis of %d hours has between two and nine times', (hours) => {
  const ticks = toTicks({ fromMs: 1_000_000_007, toMs: 1_000_000_007 + hours * 3_600_000 })
  expect(ticks.length).toBeGreaterThanOrEqual(2)
  expect(ticks.length).toBeLessThanOrEqual(9)
})
