import { expect, test } from 'vitest'
import { isEventPattern, meansEvent, unknownPatterns, webhookEventTypes } from './webhook-event.ts'

test.each([
  ['*', 'stack.created', true],
  ['stack.created', 'stack.created', true],
  ['stack.created', 'stack.deleted', false],
  ['stack.*', 'stack.deleted', true],
  ['stack.*', 'stacks.deleted', false],
  ['deployment.*', 'deployment.health.changed', true],
  ['deployment.health.*', 'deployment.health.changed', true],
  ['deployment.health.*', 'deployment.created', false],
  ['deployment', 'deployment.created', false],
])('%s means %s: %s', (pattern, type, means) => {
  expect(meansEvent(pattern, type)).toBe(means)
})

test('a pattern is a star, a name, or all names below a word', () => {
  for (const pattern of ['*', 'a.b', 'a.*', 'deployment.health.changed', 'deployment.health.*', 'no.such.event', ...webhookEventTypes])
    expect(isEventPattern(pattern), pattern).toBe(true)
  for (const pattern of ['', 'x', '**', '*.created', 'a.*.b', 'a..b', '.a', 'a.', 'a b.c', 'a/b.c', 'a.b\n', `a.${'b'.repeat(100)}`])
    expect(isEventPattern(pattern), pattern).toBe(false)
})

test('names nobody tells are told back', () => {
  expect(unknownPatterns(['*', 'stack.*', 'stack.created', 'no.such.event', 'stack.moved', 'moon.*'])).toEqual([
    'no.such.event',
    'stack.moved',
    'moon.*',
  ])
})
