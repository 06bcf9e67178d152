import { expect, test } from 'vitest'
import { KubeError } from './kube-error.ts'
import { collectionPath, objectPath, type Resource, withQuery } from './paths.ts'

const base = { verbs: [], subresources: [] }
const configMaps: Resource = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps', namespaced: true, ...base }
const roles: Resource = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  kind: 'ClusterRole',
  plural: 'clusterroles',
  namespaced: false,
  ...base,
}

test('paths cover groups, namespaces, objects and subresources', () => {
  expect(collectionPath(configMaps, 'web')).toBe('/api/v1/namespaces/web/configmaps')
  expect(collectionPath(configMaps, undefined)).toBe('/api/v1/configmaps')
  expect(collectionPath(roles, 'ignored')).toBe('/apis/rbac.authorization.k8s.io/v1/clusterroles')
  expect(objectPath(roles, { name: 'system:node' })).toBe('/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode')
  expect(objectPath(configMaps, { namespace: 'web', name: 'a' }, 'status')).toBe('/api/v1/namespaces/web/configmaps/a/status')
})

test.each([
  { name: '..', namespace: 'a' },
  { name: '.', namespace: 'a' },
  { name: 'a', namespace: '..' },
  { name: '', namespace: 'a' },
  { name: 'a' },
])('%o is refused as an object name', (at) => {
  expect(() => objectPath(configMaps, at)).toThrow(KubeError)
})

test('a name cannot escape its path segment', () => {
  expect(objectPath(configMaps, { namespace: 'a', name: '../../secrets/x?y#z' })).toBe(
    '/api/v1/namespaces/a/configmaps/..%2F..%2Fsecrets%2Fx%3Fy%23z',
  )
})

test('a query omits unset values', () => {
  expect(withQuery('/x', { a: undefined, b: '', c: false, d: 0, e: 'a=b,c' })).toBe('/x?c=false&d=0&e=a%3Db%2Cc')
  expect(withQuery('/x', {})).toBe('/x')
})
