import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { KubeObject, ManagedFieldsEntry } from '../client/object.ts'
import { fieldPaths, isOnlyAppliedBy, takeOverManagers, unionFields } from './managed-fields.ts'

const entry = (manager: string, operation: string, fieldsV1: Record<string, unknown>, subresource?: string): ManagedFieldsEntry => ({
  manager,
  operation,
  apiVersion: 'v1',
  time: '2026-01-01T00:00:00Z',
  fieldsType: 'FieldsV1',
  fieldsV1,
  ...(subresource ? { subresource } : {}),
})
const holding = (...managedFields: ManagedFieldsEntry[]): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a', managedFields },
})

test('a takeover turns the entry of an older manager into an apply', () => {
  const older = entry('old', 'Apply', { 'f:data': { 'f:a': {} } })
  expect(takeOverManagers([older, entry('kubectl', 'Update', {})], ['old'], 'new')).toEqual([
    entry('kubectl', 'Update', {}),
    { ...older, manager: 'new', operation: 'Apply' },
  ])
})

test('a takeover merges fields of both managers, including updates', () => {
  const entries = [entry('new', 'Apply', { 'f:data': { '.': {}, 'f:a': {} } }), entry('old', 'Update', { 'f:data': { 'f:b': {} } })]
  expect(takeOverManagers(entries, ['old'], 'new')).toEqual([entry('new', 'Apply', { 'f:data': { '.': {}, 'f:a': {}, 'f:b': {} } })])
})

test('a takeover ignores status entries and objects without an older manager', () => {
  expect(takeOverManagers([entry('new', 'Apply', {})], ['old'], 'new')).toBeUndefined()
  expect(takeOverManagers([entry('old', 'Update', {}, 'status')], ['old'], 'new')).toBeUndefined()
})

test('the union of field sets keeps all fields and is commutative', () => {
  const { tree } = fc.letrec((tie) => ({
    tree: fc.dictionary(fc.constantFrom('f:a', 'f:b', '.', 'k:{"name":"x"}'), fc.oneof({ maxDepth: 3 }, fc.constant({}), tie('tree')), {
      noNullPrototype: true,
    }),
  }))
  fc.assert(
    fc.property(tree, tree, (a, b) => {
      const union = unionFields(a, b)
      expect(union).toEqual(unionFields(b, a))
      expect(unionFields(union, a)).toEqual(union)
    }),
  )
})

test.each([
  [holding(entry('us', 'Apply', {})), true],
  [holding(entry('us', 'Apply', {}), entry('controller', 'Update', {}, 'status')), true],
  [holding(entry('us', 'Apply', {}), entry('kube-controller-manager', 'Update', {})), true],
  [holding(entry('us', 'Apply', {}), entry('kubectl', 'Update', {})), false],
  [holding(entry('us', 'Apply', {}), entry('them', 'Apply', {})), false],
])('an own object is distinguished from a foreign one (%#)', (object, ours) => {
  expect(isOnlyAppliedBy(object, 'us')).toBe(ours)
})

test('field paths are written with slashes and list keys', () => {
  const fields = {
    'f:metadata': { 'f:annotations': { '.': {}, 'f:a.b/c': {} } },
    'f:spec': { 'f:replicas': {}, 'f:containers': { 'k:{"name":"web"}': { '.': {}, 'f:image': {} } }, 'f:finalizers': { 'v:"x"': {} } },
  }
  expect(fieldPaths(fields)).toEqual([
    '/metadata/annotations/a.b~1c',
    '/spec/replicas',
    '/spec/containers[name=web]/image',
    '/spec/finalizers["x"]',
  ])
  expect(fieldPaths(fields, 2)).toHaveLength(2)
})
