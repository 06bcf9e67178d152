import { expect, test } from 'vitest'
import { digestTargets, findPlanDifferences } from './rules.ts'

const binding = { content_checksum: 'c', is_deletion_marker: false, base_sequence_id: 3, target_digest: 't' }
const plan = { ...binding, is_expired: false }

test.each([
  ['nothing', plan, binding, []],
  ['content', plan, { ...binding, content_checksum: 'd' }, ['content']],
  ['marker', plan, { ...binding, is_deletion_marker: true }, ['content']],
  ['newest object', plan, { ...binding, base_sequence_id: 4 }, ['head']],
  ['first object', { ...plan, base_sequence_id: null }, binding, ['head']],
  ['targets', plan, { ...binding, target_digest: 'u' }, ['targets']],
  ['time', { ...plan, is_expired: true }, binding, ['expired']],
  [
    'everything',
    { ...plan, is_expired: true },
    { ...binding, content_checksum: 'd', base_sequence_id: 9, target_digest: 'u' },
    ['expired', 'content', 'head', 'targets'],
  ],
])('findPlanDifferences: %s', (_, made, now, expected) => {
  expect(findPlanDifferences(made, now)).toEqual(expected)
})

test('the digest of targets does not depend on their order', () => {
  expect(digestTargets(['b', 'a'])).toBe(digestTargets(['a', 'b']))
  expect(digestTargets([])).not.toBe(digestTargets(['a']))
})
