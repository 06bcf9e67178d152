import { expect, test } from 'vitest'
import { findFieldOwner, owns, parsePointer, toPointer, withoutOwnedPath, withoutPath } from './field-path.ts'
import { findOwnedPaths } from './release-fields.ts'

test.each([
  ['/spec/replicas', ['spec', 'replicas']],
  ['/metadata/annotations/a.b~1c~0d', ['metadata', 'annotations', 'a.b/c~d']],
  ['/', ['']],
  ['spec/replicas', undefined],
  ['', undefined],
  ['/a~2', undefined],
])('%s', (text, steps) => {
  expect(parsePointer(text)).toEqual(steps)
  if (steps) expect(toPointer(steps)).toBe(text)
})

const pod = {
  spec: {
    containers: [
      { name: 'a', image: 'x' },
      { name: 'b', image: 'y' },
    ],
    nodeName: 'n',
  },
}
test('withoutPath removes a path from a copy and ignores an absent path', () => {
  expect(withoutPath(pod, ['spec', 'containers', '1', 'image'])).toEqual({
    spec: { containers: [{ name: 'a', image: 'x' }, { name: 'b' }], nodeName: 'n' },
  })
  expect(withoutPath(pod, ['spec', 'containers', '0'])).toEqual({ spec: { containers: [{ name: 'b', image: 'y' }], nodeName: 'n' } })
  expect(withoutPath(pod, ['spec', 'other', 'deep'])).toEqual(pod)
  expect(withoutPath(pod, ['toString'])).toBe(pod)
  expect(pod.spec.containers).toHaveLength(2)
})

const fields = {
  'f:spec': { 'f:containers': { 'k:{"name":"b"}': { '.': {}, 'f:image': {}, 'f:name': {} } }, 'f:nodeName': {}, 'f:selector': {} },
}
test.each([
  [['spec', 'nodeName'], true],
  [['spec', 'containers', '1', 'image'], true],
  [['spec', 'containers', '0', 'image'], false],
  [['spec', 'selector', 'matchLabels', 'app'], true],
  [['spec', 'replicas'], false],
  [['spec'], true],
])('owner of %j: %s', (steps, expected) => {
  expect(owns(fields, pod, steps)).toBe(expected)
})

test('withoutOwnedPath removes a path and empty branches from the field tree', () => {
  expect(withoutOwnedPath(fields, pod, ['spec', 'containers', '1', 'image'])).toEqual({
    'f:spec': { 'f:containers': { 'k:{"name":"b"}': { '.': {}, 'f:name': {} } }, 'f:nodeName': {}, 'f:selector': {} },
  })
  expect(withoutOwnedPath({ 'f:spec': { 'f:replicas': {} } }, {}, ['spec', 'replicas'])).toBeUndefined()
  expect(withoutOwnedPath(fields, pod, ['spec', 'replicas'])).toEqual(fields)
})

const entry = (manager: string, time: string, more: object = {}) => ({
  manager,
  operation: 'Update',
  time,
  fieldsV1: { 'f:data': { 'f:x': {} } },
  ...more,
})
const object = (...managedFields: ReturnType<typeof entry>[]) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a', managedFields },
  data: { x: '1' },
})
test('ownerOf returns the last writer of a path, without status writers', () => {
  const live = object(
    entry('first', '2026-01-01T00:00:00Z'),
    entry('last', '2026-01-01T00:00:05Z'),
    entry('status', '2026-01-02T00:00:00Z', { subresource: 'status' }),
  )
  expect(findFieldOwner(live, ['data', 'x'])?.manager).toBe('last')
  expect(findFieldOwner(live, ['data', 'y'])).toBeUndefined()
  expect(
    findOwnedPaths(
      live,
      ['first'],
      [
        ['data', 'x'],
        ['data', 'y'],
      ],
    ),
  ).toEqual([['data', 'x']])
  expect(findOwnedPaths(live, ['somebody'], [['data', 'x']])).toEqual([])
})
