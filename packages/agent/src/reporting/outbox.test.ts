import type { StackReport } from '@brokkr/contract/feed/stream.ts'
import type { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { expect, test } from 'vitest'
import { agentMetrics } from '../metrics.ts'
import { Outbox } from './outbox.ts'

const row = (stack: string, rev: number, change: Partial<StackReport> = {}): StackReport => ({
  stack_id: stack as StackId,
  rev,
  object_id: null,
  phase: 'applied',
  attempts: 1,
  observed_at: '2026-01-01T00:00:00Z',
  ...change,
})
const event = (id: string, object = 'o'): NewAgentEvent =>
  ({ id, agent_id: 'a', deployment_object_id: object, event_type: 'X', status: 'SUCCESS' }) as NewAgentEvent
function outbox() {
  const made = new Outbox({ metrics: agentMetrics(createMetrics()) })
  let [news, later] = [0, 0]
  made.onNews((isUrgent) => (isUrgent ? (news += 1) : (later += 1)))
  return { made, news: () => news, later: () => later }
}

test('only the newest row of each stack waits, and an equal row is not sent again', () => {
  const { made, news } = outbox()
  made.report(row('s', 1))
  made.report(row('s', 2))
  made.report(row('s', 2, { observed_at: '2026-02-02T00:00:00Z' }))
  expect(made.nextRows(10).map(({ rev }) => rev)).toEqual([2])
  made.rowsDone(made.nextRows(10))
  made.report(row('s', 2))
  expect([made.nextRows(10), made.isEmpty, news()]).toEqual([[], true, 2])
})

test('an applying row waits for the next round and wakes no sender', () => {
  const { made, news, later } = outbox()
  made.report(row('s', 1, { phase: 'pending', code: 'applying' }))
  expect([made.nextRows(10).length, news(), later()]).toEqual([1, 0, 1])
})

test('a row that arrives while an older one is in flight is sent next', () => {
  const { made } = outbox()
  made.report(row('s', 1))
  const travelling = made.nextRows(10)
  made.report(row('s', 2))
  made.rowsDone(travelling)
  expect(made.nextRows(10).map(({ rev }) => rev)).toEqual([2])
})

test('the row of a removal waits for its event and is dropped after it was sent', () => {
  const { made } = outbox()
  made.event(event('e'))
  made.report(row('s', 1, { phase: 'removed' }), { after: 'e', isLast: true })
  expect(made.nextRows(10)).toEqual([])
  made.eventDone(event('e'))
  made.rowsDone(made.nextRows(10))
  made.resendAll()
  expect(made.isEmpty).toBe(true)
})

test('a broker of another epoch receives all rows again', () => {
  const { made } = outbox()
  made.report(row('s', 1))
  made.report(row('t', 1))
  made.rowsDone(made.nextRows(10))
  made.report(row('t', 2))
  made.resendAll()
  expect(
    made
      .nextRows(10)
      .map(({ stack_id, rev }) => `${stack_id} ${rev}`)
      .toSorted(),
  ).toEqual(['s 1', 't 2'])
})

test('events keep their order, and a full spool merges the oldest of the busiest object', () => {
  const { made } = outbox()
  for (let n = 0; n < 9_999; n++) made.event(event(`quiet ${n}`, 'quiet'))
  made.event(event('first', 'noisy'))
  made.event(event('second', 'noisy'))
  const ids: (string | undefined)[] = []
  for (let next = made.nextEvents(); next.length > 0; next = made.nextEvents()) {
    expect(next.length).toBeLessThanOrEqual(200)
    ids.push(...next.map(({ id }) => id))
    for (const told of next) made.eventDone(told)
  }
  expect([ids.length, ids[0], ids.at(-1), ids.includes('quiet 0')]).toEqual([10_000, 'quiet 1', 'second', false])
})
