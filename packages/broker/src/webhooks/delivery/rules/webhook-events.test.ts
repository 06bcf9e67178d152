import { expect, test } from 'vitest'
import { matchesSubscription, type Subscription } from './webhook-events.ts'

const [agent, stack, other] = ['a', 'b', 'c'].map((digit) => `00000000-0000-4000-8000-00000000000${digit}`) as [string, string, string]
const applied = { type: 'deployment.applied', at: '', data: { agent_id: agent, stack_id: stack } } as const
const registered = { type: 'agent.registered', at: '', data: { agent_id: agent } } as const
const told = (event: typeof applied | typeof registered, filters: Subscription['filters'], event_types = ['*']) =>
  matchesSubscription({ id: other, event_types, filters }, event)

test('one pattern of several is enough', () => {
  expect(told(applied, null, ['stack.*', 'deployment.applied'])).toBe(true)
  expect(told(applied, null, ['stack.*', 'deployment.failed'])).toBe(false)
})

test('all filters must match, and a missing event field matches none', () => {
  expect(told(applied, {})).toBe(true)
  expect(told(applied, { agent_id: agent })).toBe(true)
  expect(told(applied, { agent_id: other })).toBe(false)
  expect(told(applied, { agent_id: agent, stack_id: stack })).toBe(true)
  expect(told(applied, { agent_id: agent, stack_id: other })).toBe(false)
  expect(told(registered, { agent_id: agent })).toBe(true)
  expect(told(registered, { stack_id: stack })).toBe(false)
})

test('unreadable filters match no event', () => {
  expect(told(applied, 'unreadable')).toBe(false)
})
