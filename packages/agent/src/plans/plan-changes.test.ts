import type { PlanChange } from '@brokkr/contract/plans/plan.ts'
import { expect, test } from 'vitest'
import { toAnswer, toChange, toField, toRefusal } from './plan-changes.ts'

const object = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web', namespace: 'shop' } }

test('an entry names the object, and its texts are cut and cleaned', () => {
  const change = toChange(object, 'denied', { message: `a\0${'x'.repeat(1000)}` })
  expect(change).toMatchObject({
    group: 'apps',
    kind: 'Deployment',
    namespace: 'shop',
    name: 'web',
    change: 'denied',
    fields: [],
    guard: null,
  })
  expect(change.message).toMatch(/^a\u{FFFD}x+…\[cut\]$/u)
  expect(change.message!.length).toBeLessThan(410)
})

test.each([
  [
    { path: '/a', before: 'x', after: 7 },
    { path: '/a', before: 'x', after: 7, manager: 'm' },
  ],
  [
    { path: '/a', after: true },
    { path: '/a', after: true, manager: 'm' },
  ],
  [
    { path: '/a', before: { constructor: 1 } },
    { path: '/a', before: '{"constructor":1}', manager: 'm' },
  ],
  [
    { path: '/a', before: [1, 'x'] },
    { path: '/a', before: '[1,"x"]', manager: 'm' },
  ],
  [
    { path: '/a', after: null },
    { path: '/a', after: null, manager: 'm' },
  ],
])('the field %j is shown as %j', (change, expected) => {
  expect(toField(change, 'm')).toEqual(expected)
})

test('every object is counted, and the list stops at 500 entries and 900 KiB', () => {
  const update = (size: number): PlanChange =>
    toChange(object, 'update', { fields: Array.from({ length: 50 }, () => ({ path: '/a', after: 'x'.repeat(size), manager: null })) })
  const many = toAnswer([{ change: 'unchanged' }, ...Array.from({ length: 600 }, () => toChange(object, 'create'))], null)
  expect([many.summary.create, many.summary.unchanged, many.changes.length]).toEqual([600, 1, 500])
  const large = toAnswer(
    Array.from({ length: 100 }, () => update(1000)),
    null,
  )
  expect([large.summary.update, large.changes.length]).toEqual([100, 100])
  expect(large.changes.at(0)?.fields).toHaveLength(50)
  // Without room for values the objects are still named.
  expect(large.changes.at(-1)?.fields).toEqual([])
  expect(JSON.stringify(large).length).toBeLessThan(1024 * 1024)
})

test('a refusal has no counts', () => {
  expect(toRefusal('why')).toEqual({
    state: 'refused',
    reason: 'why',
    summary: { create: 0, update: 0, delete: 0, unchanged: 0, denied: 0, unchecked: 0 },
    changes: [],
  })
})
