import { expect, test } from 'vitest'
import { allGroups, cacheKey, groupParts, isVersionAccepted, type KubePart, parseVersion, pinnedVersion } from './kube-parts.ts'

test.each([
  ['Kubernetes v1.36.4\n', 'v1.36.4'],
  ['etcd Version: 3.6.8\nGit SHA: Not provided\nGo Version: go1.26.8\n', 'v3.6.8'],
  ['kwok version v0.8.0 go1.26.8 (linux/amd64)', 'v0.8.0'],
  ['Client Version: v1.36.4\nKustomize Version: v5.8.1\n', 'v1.36.4'],
  ['flag provided but not defined', undefined],
])('parseVersion parses %j', (output, version) => {
  expect(parseVersion(output)).toBe(version)
})

test.each<[KubePart, string, boolean]>([
  ['kube-apiserver', 'v1.36.4', true],
  ['kube-apiserver', 'v1.36.0', true],
  ['kube-apiserver', 'v1.35.9', false],
  ['kube-apiserver', 'v1.37.0', false],
  ['kube-apiserver', 'v2.36.4', false],
  ['etcd', 'v3.6.1', true],
  ['etcd', 'v3.5.21', false],
  ['kwok', 'v0.8.3', true],
  ['kwok', 'v0.7.0', false],
  ['kubectl', 'v1.35.2', true],
  ['kubectl', 'v1.37.1', true],
  ['kubectl', 'v1.34.0', false],
])('isVersionAccepted for %s %s returns %s', (part, version, fits) => {
  expect(isVersionAccepted(part, version)).toBe(fits)
})

test('every part is in one group, and its pinned version is accepted', () => {
  const parts = allGroups.flatMap((group): readonly KubePart[] => groupParts[group])
  expect(new Set(parts).size).toBe(parts.length)
  expect(parts.filter((part) => !isVersionAccepted(part, pinnedVersion(part)))).toEqual([])
})

test('cache keys differ by version and platform', () => {
  expect(cacheKey('core', 'linux-x64')).toBe('kube/core-v1.36.4-linux-x64')
  expect(cacheKey('kwok', 'darwin-arm64')).toBe('kube/kwok-v0.8.0-darwin-arm64')
})
