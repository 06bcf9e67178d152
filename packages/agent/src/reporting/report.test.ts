import type { AgentId, DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import { expect, test } from 'vitest'
import type { ObjectOutcome, Outcome } from '../reconcile/outcome.ts'
import { type AttemptReport, shouldReport, toAttemptEvent, toFailureKey, toStatusRow } from './report.ts'

const object = { id: 'object' as DeploymentObjectId, sequenceId: 7 }
const event = { id: 'kept-id', type: 'UPDATED', at: '2026-01-01T00:00:00.000Z' }
const state = {
  version: 1,
  agent_id: 'a',
  stack_id: 's',
  deployment_object_id: 'earlier',
  sequence_id: 5,
  rev: 6,
  checksum: 'c',
  drift: 'heal',
  event,
}
const touched: ObjectOutcome = { group: 'apps', version: 'v1', kind: 'Deployment', namespace: 'web', name: 'api', operation: 'updated' }
const nowMs = Date.UTC(2026, 0, 1)
const attempted = (outcome: Outcome, change: Partial<AttemptReport> = {}): AttemptReport => ({
  agentId: 'agent' as AgentId,
  stackId: 'stack' as StackId,
  rev: 7,
  object,
  isHeld: false,
  attempt: 2,
  outcome,
  nowMs,
  tookMs: 812.4,
  retryAtMs: null,
  conflict: null,
  ...change,
})
const applied = (isNew: boolean): Outcome => ({
  phase: 'applied',
  objects: [touched],
  event,
  isNew,
  changes: [],
  drift: null,
  held: null,
  warnings: [],
})
const failed: Outcome = { phase: 'failed', objects: [], problem: { phase: 'failed', code: 'forbidden', message: 'no' } }
const removed: Outcome = { phase: 'removed', objects: [], last: state }

test.each([
  ['applied', attempted(applied(true)), { phase: 'applied', rev: 7, object_id: 'object', attempts: 2 }],
  [
    'applied while its removal is held',
    attempted(applied(false), { isHeld: true }),
    { phase: 'held', code: 'prune_guard', rev: 7, object_id: 'object' },
  ],
  [
    'failed',
    attempted(failed, { retryAtMs: nowMs + 1000 }),
    { phase: 'failed', code: 'forbidden', message: 'no', retry_at: '2026-01-01T00:00:01.000000Z' },
  ],
  ['removed by a marker', attempted(removed), { phase: 'removed', rev: 7, object_id: 'object' }],
  [
    'removed because it no longer matches',
    attempted(removed, { object: null, rev: 0 }),
    { phase: 'removed', rev: 6, object_id: 'earlier' },
  ],
  [
    'nothing was there to remove',
    attempted({ phase: 'removed', objects: [], last: null }, { object: null, rev: 3 }),
    { phase: 'removed', rev: 3, object_id: null },
  ],
])('row: %s', (_what, done, expected) => {
  expect(toStatusRow(done)).toMatchObject({ stack_id: 'stack', observed_at: '2026-01-01T00:00:00.000000Z', ...expected })
})

test.each([
  [
    'a revision that arrived',
    attempted(applied(true)),
    false,
    { id: 'kept-id', event_type: 'UPDATED', status: 'SUCCESS', sequence_id: 7, duration_ms: 812, resources: [touched] },
  ],
  ['a revision found in place by a new process', attempted(applied(false)), true, { id: 'kept-id', event_type: 'UPDATED' }],
  ['a look that changed nothing', attempted(applied(false)), false, null],
  ['a failure', attempted(failed), false, { event_type: 'FAILED', status: 'FAILURE', error_code: 'forbidden', message: 'no', attempt: 2 }],
  ['a wait', attempted({ phase: 'pending', objects: [], problem: { phase: 'pending', code: 'crd', message: 'x' } }), false, null],
  ['a removal by marker', attempted(removed), false, { event_type: 'DELETED', deployment_object_id: 'object', sequence_id: 7 }],
  [
    'a removal of what no longer matches',
    attempted(removed, { object: null }),
    false,
    { event_type: 'DELETED', deployment_object_id: 'earlier', sequence_id: 5 },
  ],
  ['a removal of nothing', attempted({ phase: 'removed', objects: [], last: null }), true, null],
])('event: %s', (_what, done, isFirstLook, expected) => {
  const made = toAttemptEvent(done, isFirstLook)
  if (expected === null) expect(made).toBeNull()
  else expect(made).toMatchObject({ agent_id: 'agent', ...expected })
})

test('a repeated failure is reported once, when it changes, and then hourly', () => {
  const made = toAttemptEvent(attempted(failed), false)!
  const told = { text: toFailureKey(made), atMs: nowMs }
  expect(shouldReport(made, undefined, nowMs)).toBe(true)
  expect(shouldReport(made, told, nowMs + 3_599_999)).toBe(false)
  expect(shouldReport(made, told, nowMs + 3_600_000)).toBe(true)
  expect(shouldReport({ ...made, message: 'other' }, told, nowMs)).toBe(true)
})

test('event ids have UUID version 7 and increase with time', () => {
  const ids = [0, 1, 2].map((ms) => toAttemptEvent(attempted(failed, { nowMs: nowMs + ms }), false)?.id ?? '')
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(ids.toSorted()).toEqual(ids)
})

test('long lists and texts are truncated', () => {
  const objects = Array.from({ length: 600 }, () => touched)
  const long: Outcome = { phase: 'failed', objects, problem: { phase: 'failed', code: 'invalid', message: 'x'.repeat(9_000) } }
  const made = toAttemptEvent(attempted(long), false)
  expect([made?.resources?.length, made?.message?.length, toStatusRow(attempted(long)).message?.length]).toEqual([500, 4096, 4096])
})
