import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import { expect, test } from 'vitest'
import { simulate } from '../decide/test-parts/simulation.ts'
import { isRepetition, keepFirstRevision } from './runs.ts'

const run = (revision: string, firstRevision?: string): Run => ({
  number: 1,
  revision,
  startedAt: '2026-01-01T00:00:00Z',
  cause: { kind: 'detected' },
  ...(firstRevision === undefined ? {} : { firstRevision }),
})

test.each([
  ['is stored when the replaced run promoted it', 'b', run('b'), 'b'],
  ['is stored when the replaced run stored it', 'b', run('a', 'b'), 'b'],
  ['is not stored when it never had a run', 'c', run('b'), undefined],
  ['is not stored when the replaced run stored another', 'c', run('a', 'b'), undefined],
  ['is not stored without a run before', 'c', undefined, undefined],
  ['is not stored when it is not known', undefined, run('b'), undefined],
] as const)('the first revision of a manual run %s', (_title, observed, replaced, expected) => {
  expect(keepFirstRevision(observed, replaced)).toBe(expected)
})

test.each([
  ['a', 2, 'x'],
  ['b', 3, 'b'],
] as const)('a manual run while the first environment runs %s leads to run %i of %s', (first, number, revision) => {
  const world = simulate()
  world.settle()
  world.set('dev', first)
  const firstRevision = keepFirstRevision(first, world.run)
  world.run = { ...run('x', firstRevision), number: 2, cause: { kind: 'manual', actor: 'user:a' } }
  world.settle()
  expect([world.run.number, world.run.revision]).toEqual([number, revision])
})

const [caller, other, order] = ['a', 'b', 'c'].map((character) => character.repeat(32)) as [string, string, string]

test.each([
  ['the same request', caller + order, true],
  ['a run of an older version, which stored no order', caller, true],
  ['another caller or key', other + order, false],
  ['a run without a key', undefined, false],
])('a repeated request recognizes %s', (_title, stored, expected) => {
  expect(isRepetition(stored, caller + order)).toBe(expected)
})

test('a key that was used for another order is refused', () => {
  expect(() => isRepetition(caller + other, caller + order)).toThrow('Idempotency-Key was used for another run')
})
