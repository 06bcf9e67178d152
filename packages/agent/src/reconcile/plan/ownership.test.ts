import type { KubeObject } from '@brokkr/kube'
import { expect, test } from 'vitest'
import { judgeOwnership } from './ownership.ts'

const object = (labels: Record<string, string>, annotations: Record<string, string> = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'm', namespace: 'x', labels, annotations },
})
const adopt = object({}, { 'brokkr.io/adopt': 'true' })
const plain = object({})
const mine = { 'brokkr.io/owner-id': 'me', 'brokkr.io/stack': 's' }
const other = { 'brokkr.io/owner-id': 'me', 'brokkr.io/stack': 'other' }
const theirs = { 'brokkr.io/owner-id': 'you', 'brokkr.io/stack': 's' }
const tool = { 'applyset.kubernetes.io/part-of': 'applyset-foreign' }

test.each([
  ['ours by labels', object(mine), plain, 'unowned', 'ours'],
  [
    'ours by the annotations of the first version',
    object({}, { 'brokkr.io/owner-id': 'me', 'k8s.brokkr.io/stack': 's' }),
    plain,
    'unowned',
    'ours',
  ],
  ['another stack of ours', object(other), plain, 'any', 'owned_by_other_stack'],
  ['another stack of ours, adopted', object(other), adopt, 'never', 'adopted'],
  ['nobody’s', object({}), plain, 'any', 'foreign_object'],
  ['nobody’s, adopted', object({}), adopt, 'unowned', 'adopted'],
  ['nobody’s, adoption switched off', object({}), adopt, 'never', 'foreign_object'],
  ['another agent’s', object(theirs), adopt, 'unowned', 'foreign_object'],
  ['another agent’s, adoption of anything', object(theirs), adopt, 'any', 'adopted'],
  [
    'one of an agent whose place we took',
    object({ ...theirs, 'brokkr.io/owner-id': 'before', 'brokkr.io/stack': 's' }),
    plain,
    'never',
    'ours',
  ],
  ['another tool’s', object(tool), adopt, 'unowned', 'foreign_object'],
  ['another tool’s, adoption of anything', object(tool), adopt, 'any', 'adopted'],
] as const)('%s', (_what, live, wanted, adoption, expected) => {
  const verdict = judgeOwnership(live, wanted, { agentId: 'me', stackId: 's', adoption, adoptFrom: ['before'] })
  expect(verdict.is === 'foreign' ? verdict.problem.code : verdict.is).toBe(expected)
  if (verdict.is === 'foreign') expect(verdict.problem.message).toContain('ConfigMap x/m')
})
