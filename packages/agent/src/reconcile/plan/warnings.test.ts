import { type ApplyOutcome, identityKey, identityOf } from '@brokkr/kube'
import { expect, test } from 'vitest'
import type { DesiredObject } from './desired.ts'
import { listWarnings } from './warnings.ts'

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

test('reserved keys and API warnings are reported per object without Secret values', () => {
  expect(
    listWarnings([desired('a', ['label brokkr.io/stack']), desired('b', [])], [applied('b', ['v1 is old; got canary-value'])]),
  ).toEqual([`Secret x/a: label brokkr.io/stack is the agent's own and was overwritten`, 'Secret x/b: v1 is old; got ***'])
})

test('the number of warnings is limited', () => {
  expect(
    listWarnings(
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
