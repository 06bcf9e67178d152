import { expect, test } from 'vitest'
import { checkPruneGuard } from './prune-guard.ts'

const maps = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `m${n}`, namespace: 'x' } }))
const one = (apiVersion: string, kind: string) => [{ apiVersion, kind, metadata: { name: 'dear', namespace: 'x' } }]
const guard = { count: 5, percent: 20 }

test.each([
  ['nothing', maps(0), 10, null],
  ['few of few', maps(5), 6, null],
  ['many of very many', maps(20), 100, null],
  ['more than five and more than a fifth', maps(6), 29, /6 of 29/],
  ['exactly a fifth', maps(6), 30, null],
  ['all', maps(1), 1, /all 1 objects/],
  ['all of many', maps(4), 4, /all 4/],
  ['a namespace', one('v1', 'Namespace'), 100, /dear/],
  ['a definition', one('apiextensions.k8s.io/v1', 'CustomResourceDefinition'), 100, /dear/],
  ['a claim', one('v1', 'PersistentVolumeClaim'), 100, /dear/],
  ['a stateful set', one('apps/v1', 'StatefulSet'), 100, /dear/],
  ['a Deployment', one('apps/v1', 'Deployment'), 100, null],
] as const)('%s', (_what, deletes, before, expected) => {
  const why = checkPruneGuard(deletes, before, guard)
  if (expected === null) expect(why).toBeNull()
  else expect(why).toMatch(expected)
})

test('the prune guard lists a limited number of members', () => {
  expect(checkPruneGuard(maps(50), 60, guard)).toMatch(/m19, and 30 more$/)
})
