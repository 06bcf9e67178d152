import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { KubeObject } from '../client/object.ts'
import { type Change, forEachChange, InformerCache } from './informer-cache.ts'

const objectOf = (name: string, uid: string, resourceVersion: string): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'a', name, uid, resourceVersion },
})

/** What a handler that only ever heard of changes believes to be there. */
function believe(model: Map<string, string>, changes: Iterable<Change<string>>): void {
  for (const change of changes) {
    expect(model.has(change.key)).toBe(change.type !== 'added')
    expect(change.type === 'updated' ? change.before : undefined).toBe(change.type === 'updated' ? model.get(change.key) : undefined)
    if (change.type === 'deleted') model.delete(change.key)
    else model.set(change.key, change.value)
  }
}

const versionOf = (object: KubeObject): string => `${object.metadata.uid} ${object.metadata.resourceVersion}`

test('handlers have exactly the cached objects after any sequence of events and lists', () => {
  const object = fc
    .tuple(fc.constantFrom('x', 'y', 'z'), fc.constantFrom('u1', 'u2'), fc.constantFrom('1', '2', '3'))
    .map((parts) => objectOf(...parts))
  const step = fc.oneof(
    fc.record({ do: fc.constant('put' as const), object }),
    fc.record({ do: fc.constant('remove' as const), object }),
    fc.record({ do: fc.constant('list' as const), objects: fc.array(object) }),
  )
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const cache = new InformerCache(versionOf)
      const model = new Map<string, string>()
      for (const news of steps) {
        if (news.do === 'put') believe(model, cache.put(news.object))
        else if (news.do === 'remove') believe(model, cache.remove(news.object))
        else {
          const fresh = cache.newList()
          for (const item of news.objects) cache.fill(fresh, item)
          const changes: Change<string>[] = []
          forEachChange(cache.replaceAll(fresh), fresh, (change) => changes.push(change))
          believe(model, changes)
        }
        expect(new Map(cache.entries())).toEqual(model)
      }
    }),
  )
})

test('a re-created object is reported as deleted and added', () => {
  const cache = new InformerCache(versionOf)
  cache.put(objectOf('x', 'u1', '1'))
  expect(cache.put(objectOf('x', 'u2', '5')).map(({ type, value }) => [type, value])).toEqual([
    ['deleted', 'u1 1'],
    ['added', 'u2 5'],
  ])
  expect(cache.put(objectOf('x', 'u2', '5'))).toEqual([])
})

test('a filtered object is not cached, and one that becomes filtered is reported as deleted', () => {
  const cache = new InformerCache(
    (each: KubeObject) => each.metadata.name,
    ({ metadata }) => metadata.labels?.['keep'] === 'yes',
  )
  const made = (name: string, keep: string): KubeObject => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, uid: name, resourceVersion: keep, labels: { keep } },
  })
  const list = cache.newList()
  for (const each of [made('a', 'yes'), made('b', 'no')]) cache.fill(list, each)
  cache.fill(list, made('a', 'yes'))
  cache.replaceAll(list)
  expect([...cache.entries()].map(([, name]) => name)).toEqual(['a'])
  expect(cache.put(made('c', 'no'))).toEqual([])
  expect(cache.put(made('b', 'yes')).map(({ type }) => type)).toEqual(['added'])
  expect(cache.put(made('b', 'no')).map(({ type }) => type)).toEqual(['deleted'])
  expect(cache.size).toBe(1)
})
