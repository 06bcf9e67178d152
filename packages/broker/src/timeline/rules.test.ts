import { expect, test } from 'vitest'
import { mergeRecords, sumRecords, type TimelineRecord, toAuditRecord, toEventRecord } from './rules.ts'

const idOf = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
const audit = (n: number, at: string, action: string, more: object = {}): TimelineRecord =>
  toAuditRecord({
    id: idOf(n),
    created_at: `2026-05-12T${at}.000000Z`,
    action,
    actor_type: 'admin',
    actor_id: null,
    resource_type: 'stack',
    resource_id: idOf(900),
    resource_name: null,
    ...more,
  })
const event = (n: number, at: string, status: string, agent = 1, stack = 900): TimelineRecord =>
  toEventRecord({
    id: idOf(n),
    created_at: `2026-05-12T${at}.000000Z`,
    event_type: 'DEPLOY',
    status,
    agent_id: idOf(agent),
    stack_id: idOf(stack),
    deployment_object_id: idOf(stack + 1),
    message: null,
  })
const none = () => undefined

test('two lists are merged newest first up to the limit; equal times are ordered by id', () => {
  const [a, b] = [
    [audit(9, '10:00:05', 'x.a'), audit(3, '10:00:01', 'x.b')],
    [event(8, '10:00:05', 'SUCCESS'), event(7, '10:00:02', 'SUCCESS')],
  ]
  const ids = (limit: number) => mergeRecords(a, b, limit).map(({ id }) => Number(id.slice(-3)))
  expect(ids(10)).toEqual([9, 8, 7, 3])
  expect(ids(3)).toEqual([9, 8, 7])
  expect(mergeRecords([], b, 1)).toEqual(b.slice(0, 1))
})

test.each([
  ['minute', [1, 2]],
  ['hour', [3]],
  ['day', [3]],
] as const)('events of one stack and result are summed per %s', (step, expected) => {
  const records = [event(3, '10:01:00', 'SUCCESS', 3), event(2, '10:00:59', 'SUCCESS', 2), event(1, '10:00:01', 'SUCCESS', 2)]
  const groups = sumRecords(records, step, none)
  expect(groups.map((group) => group.records)).toEqual(expected)
  expect(groups.at(-1)).toMatchObject({ since: '2026-05-12T10:00:01.000000Z', agents: step === 'minute' ? 1 : 2 })
})

test('failures, other stacks and other actors are separate sums', () => {
  const records = [
    event(6, '10:00:06', 'SUCCESS', 1),
    event(5, '10:00:05', 'FAILURE', 2),
    event(4, '10:00:04', 'SUCCESS', 1, 700),
    audit(3, '10:00:03', 'stack.held'),
    audit(2, '10:00:02', 'stack.held', { actor_type: 'generator', actor_id: idOf(50) }),
    audit(1, '10:00:01', 'stack.held', { resource_id: idOf(701) }),
  ]
  expect(sumRecords(records, 'hour', none).map(({ newest, records: n }) => [newest.kind, newest.status, n])).toEqual([
    ['agent', 'SUCCESS', 1],
    ['agent', 'FAILURE', 1],
    ['agent', 'SUCCESS', 1],
    ['change', null, 2],
    ['change', null, 1],
  ])
})

test('deployment objects are summed per stack, which their object tells', () => {
  const object = (n: number) => audit(n, `10:00:0${n}`, 'deployment.created', { resource_type: 'deployment_object', resource_id: idOf(n) })
  const groups = sumRecords([object(3), object(2), object(1)], 'minute', (id) => (id === idOf(2) ? 'b' : 'a'))
  expect(groups.map(({ newest, records }) => [newest.deployment_object_id, records])).toEqual([
    [idOf(3), 2],
    [idOf(2), 1],
  ])
})

test.each([
  ['auth.failed', null],
  ['session.created', null],
  ['login_link.created', null],
  ['plan.created', null],
  ['workorder.claimed', null],
  ['workorder.created', 'change'],
  ['stack.held', 'change'],
  ['authority.changed', 'change'],
])('an audit entry %s has the kind %s', (action, kind) => {
  expect(audit(1, '10:00:00', action).kind).toBe(kind)
  expect(sumRecords([audit(1, '10:00:00', action)], 'day', none)).toHaveLength(kind === null ? 0 : 1)
})
