import type { KubeObject, ManagedFieldsEntry } from '@brokkr/kube/object.ts'
import { expect, test } from 'vitest'
import { CleanMarks, seenOf } from './clean-marks.ts'

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
])('never looked at before: %s', (_what, seen, suspect) => {
  expect(new CleanMarks().isSuspect(seenOf(seen))).toBe(suspect)
})

test('our own write is not suspected, whether it is seen before or after its answer', () => {
  const marks = new CleanMarks()
  marks.mark(key, 'u', '10')
  expect(marks.isSuspect(seenOf(object('9', [theirs(at(50))])))).toBe(false)
  expect(marks.isSuspect(seenOf(object('10', [ours(at(1)), theirs(at(50))])))).toBe(false)
})

test('after a look that found nothing wrong, only a further change by another hand is suspect', () => {
  const marks = new CleanMarks()
  const touched = [ours(at(1)), theirs(at(5))]
  expect(marks.isSuspect(seenOf(object('10', touched)))).toBe(true)
  marks.mark(key, 'u', '10')
  expect(marks.isSuspect(seenOf(object('11', [...touched, theirs(at(9), 'status')])))).toBe(false)
  expect(marks.isSuspect(seenOf(object('12', touched, { generation: 2 })))).toBe(true)
  expect(marks.isSuspect(seenOf(object('12', [ours(at(1)), theirs(at(9))])))).toBe(true)
})

test('what is known in this very version is not looked at closely; versions that are no numbers always are', () => {
  const marks = new CleanMarks()
  const touched = [ours(at(1)), theirs(at(5))]
  marks.mark(key, 'u', '10')
  expect([marks.mayBeTouched(object('10', touched)), marks.mayBeTouched(object('11', touched))]).toEqual([false, true])
  marks.mark(key, 'u', 'x-10')
  expect(marks.mayBeTouched(object('x-10', touched))).toBe(true)
})

test('another object under the same name is judged by itself', () => {
  const marks = new CleanMarks()
  marks.mark(key, 'u', '10')
  expect(marks.isSuspect(seenOf(object('11', [theirs(at(1))], { uid: 'other' })))).toBe(true)
  marks.mark(key, 'u', '10')
  marks.forget(key, 'other')
  expect(marks.isSuspect(seenOf(object('9', [theirs(at(50))])))).toBe(false)
  marks.forget(key, 'u')
  expect(marks.isSuspect(seenOf(object('9', [theirs(at(50))])))).toBe(true)
})
