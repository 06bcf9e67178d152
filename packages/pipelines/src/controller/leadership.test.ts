import { expect, test } from 'vitest'
import { isOutranked } from './leadership.ts'

test.each([
  ['was never written', undefined, 'one', false],
  ['was written under a larger epoch of the same Lease', { epoch: 7, uid: 'one' }, 'one', true],
  ['was written under the same epoch of the same Lease', { epoch: 6, uid: 'one' }, 'one', false],
  ['was written under a smaller epoch of the same Lease', { epoch: 5, uid: 'one' }, 'one', false],
  ['was written under a larger epoch of another Lease', { epoch: 7, uid: 'two' }, 'one', false],
  ['has no Lease UID and a larger epoch', { epoch: 7 }, 'one', true],
  ['has no Lease UID and a smaller epoch', { epoch: 5 }, 'one', false],
  ['has no Lease UID and a larger epoch, without leader election', { epoch: 7 }, null, true],
  ['has a Lease UID, without leader election', { epoch: 7, uid: 'one' }, null, false],
] as const)('a record that %s stays or is written as its epoch says', (_title, last, leaseUid, expected) => {
  const lease = last === undefined ? undefined : { holder: 'other', ...last }
  expect(isOutranked({ epoch: 6, leaseUid }, lease)).toBe(expected)
})
