import type { KubeObject, ManagedFieldsEntry } from '@brokkr/kube'
import { expect, test } from 'vitest'
import { toObservedVersion, VerifiedVersions } from './verified-versions.ts'

const ours = (time: string): ManagedFieldsEntry => ({ manager: 'brokkr-agent', operation: 'Apply', time, fieldsV1: { 'f:data': {} } })
const theirs = (time: string, subresource?: string): ManagedFieldsEntry => ({
  manager: 'kubectl',
  operation: 'Update',
  time,
  ...(subresource ? { subresource } : {}),
})
const at = (second: number): string => `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`

const object = (resourceVersion: string, entries: ManagedFieldsEntry[], change: Partial<KubeObject['metadata']> = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'm', namespace: 'x', uid: 'u', resourceVersion, managedFields: entries, ...change },
})
const key = 'ConfigMap|x|m'

test.each([
  ['nobody wrote after us', object('5', [ours(at(10)), theirs(at(9))]), false],
  ['somebody wrote after us', object('5', [ours(at(10)), theirs(at(11))]), true],
  ['somebody wrote in the same second', object('5', [ours(at(10)), theirs(at(10))]), true],
  ['only status was written', object('5', [ours(at(10)), theirs(at(30), 'status')]), false],
  ['it was scaled', object('5', [ours(at(10)), theirs(at(30), 'scale')]), true],
  ['our own entry is gone', object('5', [theirs(at(9))]), true],
  ['a time that cannot be read', object('5', [ours(at(10)), { manager: 'x', operation: 'Update' }]), true],
])('without a verified version: %s', (_what, seen, suspect) => {
  expect(new VerifiedVersions().isSuspect(toObservedVersion(seen))).toBe(suspect)
})

test('an own write is no drift candidate, seen before or after its response', () => {
  const marks = new VerifiedVersions()
  marks.recordVerified(key, 'u', '10')
  expect(marks.isSuspect(toObservedVersion(object('9', [theirs(at(50))])))).toBe(false)
  expect(marks.isSuspect(toObservedVersion(object('10', [ours(at(1)), theirs(at(50))])))).toBe(false)
})

test('after a verification only a later change by another writer is a candidate', () => {
  const marks = new VerifiedVersions()
  const touched = [ours(at(1)), theirs(at(5))]
  expect(marks.isSuspect(toObservedVersion(object('10', touched)))).toBe(true)
  marks.recordVerified(key, 'u', '10')
  expect(marks.isSuspect(toObservedVersion(object('11', [...touched, theirs(at(9), 'status')])))).toBe(false)
  expect(marks.isSuspect(toObservedVersion(object('12', touched, { generation: 2 })))).toBe(true)
  expect(marks.isSuspect(toObservedVersion(object('12', [ours(at(1)), theirs(at(9))])))).toBe(true)
})

test('a verified version is skipped, and a version that is not a number never is', () => {
  const marks = new VerifiedVersions()
  const touched = [ours(at(1)), theirs(at(5))]
  marks.recordVerified(key, 'u', '10')
  expect([marks.mayHaveDrifted(object('10', touched)), marks.mayHaveDrifted(object('11', touched))]).toEqual([false, true])
  marks.recordVerified(key, 'u', 'x-10')
  expect(marks.mayHaveDrifted(object('x-10', touched))).toBe(true)
})

test('another uid under the same name is judged separately', () => {
  const marks = new VerifiedVersions()
  marks.recordVerified(key, 'u', '10')
  expect(marks.isSuspect(toObservedVersion(object('11', [theirs(at(1))], { uid: 'other' })))).toBe(true)
  marks.recordVerified(key, 'u', '10')
  marks.forget(key, 'other')
  expect(marks.isSuspect(toObservedVersion(object('9', [theirs(at(50))])))).toBe(false)
  marks.forget(key, 'u')
  expect(marks.isSuspect(toObservedVersion(object('9', [theirs(at(50))])))).toBe(true)
})
