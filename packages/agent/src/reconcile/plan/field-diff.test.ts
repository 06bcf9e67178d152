import { expect, test } from 'vitest'
import { findChangedPaths } from './field-diff.ts'

const object = (change: object = {}, metadata: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a', ...metadata },
  ...change,
})

test.each([
  ['nothing', {}, {}, []],
  ['a value', { data: { x: '1' } }, { data: { x: '2' } }, ['/data/x']],
  ['one more and one less', { data: { x: '1' } }, { data: { y: '1' } }, ['/data/x', '/data/y']],
  ['a key with a slash', { data: { 'a/b': '1' } }, { data: { 'a/b': '2' } }, ['/data/a~1b']],
  ['an item of a list', { spec: { l: [{ n: 1 }, { n: 2 }] } }, { spec: { l: [{ n: 1 }, { n: 3 }] } }, ['/spec/l/1/n']],
  ['the length of a list', { spec: { l: [1] } }, { spec: { l: [1, 2] } }, ['/spec/l']],
  ['status', { status: { a: 1 } }, { status: { a: 2 } }, []],
  ['an empty map and none', { data: {} }, {}, []],
  ['a large integer', { spec: { n: 9007199254740993n } }, { spec: { n: 9007199254740992n } }, ['/spec/n']],
])('%s', (_what, a, b, paths) => {
  expect(findChangedPaths(object(a), object(b), 50)).toEqual(paths)
})

test('server-managed fields are ignored, labels are compared', () => {
  const theirs = { uid: 'u', resourceVersion: '7', generation: 3, creationTimestamp: 'then', managedFields: [{ manager: 'm' }] }
  expect(findChangedPaths(object({}, { ...theirs, labels: { a: '1' } }), object({}, { labels: { a: '2' } }), 50)).toEqual([
    '/metadata/labels/a',
  ])
})

test('the diff returns at most the requested number of paths', () => {
  const many = (value: string) => object({ data: Object.fromEntries(Array.from({ length: 99 }, (_, n) => [`k${n}`, value])) })
  expect(findChangedPaths(many('1'), many('2'), 10)).toHaveLength(10)
})
