import type { ApplyOutcome } from '@brokkr/kube/apply-object.ts'
import { identityKey, identityOf } from '@brokkr/kube/object.ts'
import { expect, test } from 'vitest'
import type { DesiredObject } from './desired.ts'
import { warningsOf } from './warnings.ts'

function desired(name: string, overwritten: string[]): DesiredObject {
  const object = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'x' }, stringData: { key: 'canary-value' } }
  return { object, fresh: object, uncut: object, ignored: [], hash: '', overwritten, key: identityKey(identityOf(object)) }
}
const applied = (name: string, warnings: string[]): ApplyOutcome => ({
  ref: { apiVersion: 'v1', kind: 'Secret', namespace: 'x', name },
  action: 'created',
  replaced: false,
  warnings,
})

test('marks of ours in a manifest and warnings of the API server are named with their object, without values of Secrets', () => {
  expect(warningsOf([desired('a', ['label brokkr.io/stack']), desired('b', [])], [applied('b', ['v1 is old; got canary-value'])])).toEqual([
    `Secret x/a: label brokkr.io/stack is the agent's own and was overwritten`,
    'Secret x/b: v1 is old; got ***',
  ])
})

test('there are never more than a screen of them', () => {
  expect(
    warningsOf(
      [],
      [
        applied(
          'a',
          Array.from({ length: 99 }, (_, n) => `w${n}`),
        ),
      ],
    ),
  ).toHaveLength(20)
})
