import { expect, test } from 'vitest'
import { findUnknownPatterns, isEventPattern, matchesEvent, webhookEventTypes } from './event-types.ts'

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
  expect(matchesEvent(pattern, type)).toBe(means)
})

test('a pattern is a star, a name, or a prefix with a star', () => {
  for (const pattern of ['*', 'a.b', 'a.*', 'deployment.health.changed', 'deployment.health.*', 'no.such.event', ...webhookEventTypes])
    expect(isEventPattern(pattern), pattern).toBe(true)
  for (const pattern of ['', 'x', '**', '*.created', 'a.*.b', 'a..b', '.a', 'a.', 'a b.c', 'a/b.c', 'a.b\n', `a.${'b'.repeat(100)}`])
    expect(isEventPattern(pattern), pattern).toBe(false)
})

test('unknown event names are returned', () => {
  expect(findUnknownPatterns(['*', 'stack.*', 'stack.created', 'no.such.event', 'stack.moved', 'moon.*'])).toEqual([
    'no.such.event',
    'stack.moved',
    'moon.*',
  ])
})
