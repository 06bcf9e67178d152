import { expect, test } from 'vitest'
import type { Written } from '../client/kube.ts'
import { mayHaveChanged, toApplyPayload, toEmptyPayload } from './apply-format.ts'

const serverTimeMs = Date.parse('2026-01-01T00:00:10Z')
const written = (time: string | undefined, more: Partial<Written> = {}): Written => ({
  object: {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: 'a',
      managedFields: [
        { manager: 'us', operation: 'Apply', ...(time ? { time } : {}) },
        { manager: 'them', operation: 'Update', time: '2026-01-01T00:00:10Z' },
      ],
    },
  },
  created: false,
  serverTimeMs,
  tookMs: 5,
  warnings: [],
  ...more,
})

test.each([
  ['our entry is older than the request', written('2026-01-01T00:00:05Z'), false],
  ['our entry is of this second', written('2026-01-01T00:00:10Z'), true],
  ['our entry is of the second before, which rounding may explain', written('2026-01-01T00:00:09Z'), true],
  ['a slow webhook stood between entry and answer', written('2026-01-01T00:00:05Z', { tookMs: 6_000 }), true],
  ['it was made anew', written('2026-01-01T00:00:01Z', { created: true }), true],
  ['the server does not tell its time', written('2026-01-01T00:00:01Z', { serverTimeMs: undefined }), true],
  ['our entry has no time', written(undefined), true],
])('mayHaveChanged detects whether an apply changed the object: %s', (_why, answer, changed) => {
  expect(mayHaveChanged(answer, 'us')).toBe(changed)
})

test('mayHaveChanged returns true without an entry of the manager', () => {
  expect(mayHaveChanged(written('2026-01-01T00:00:01Z'), 'somebody')).toBe(true)
})

test('toApplyPayload removes status and metadata that the server sets', () => {
  const object = {
    apiVersion: 'v1',
    kind: 'X',
    metadata: {
      name: 'a',
      namespace: 'n',
      uid: 'u',
      resourceVersion: '1',
      generation: 2,
      creationTimestamp: 't',
      managedFields: [],
      labels: { l: '1' },
      annotations: { a: '1' },
      finalizers: ['f'],
      ownerReferences: [],
    },
    spec: { s: 1 },
    status: { t: 1 },
  }
  expect(toApplyPayload(object)).toEqual({
    apiVersion: 'v1',
    kind: 'X',
    metadata: { name: 'a', namespace: 'n', labels: { l: '1' }, annotations: { a: '1' }, finalizers: ['f'], ownerReferences: [] },
    spec: { s: 1 },
  })
  expect(toEmptyPayload(object)).toEqual({ apiVersion: 'v1', kind: 'X', metadata: { name: 'a', namespace: 'n' } })
})
