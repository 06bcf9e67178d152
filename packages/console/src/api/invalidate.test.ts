import { expect, test } from 'vitest'
import { isAffected } from './invalidate.ts'

test.each([
  ['a list of stacks', ['listStacks', { query: {} }], { scope: 'stack:1', kind: 'stack', id: '1' }, true],
  ['the stack itself', ['getStack', { params: { id: '1' } }], { scope: 'stack:1', kind: 'stack', id: '1' }, true],
  ['another stack', ['getStack', { params: { id: '2' } }], { scope: 'stack:1', kind: 'stack', id: '1' }, false],
  ['the status of the stack', ['getStackStatus', { params: { id: '1' } }], { scope: 'stack_status:1', kind: 'status', id: '9' }, true],
  ['the status of another stack', ['getStackStatus', { params: { id: '2' } }], { scope: 'stack_status:1', kind: 'status', id: '9' }, false],
  ['the agent of a status', ['getAgent', { params: { id: '9' } }], { scope: 'agent:9', kind: 'agent', id: '9' }, true],
  ['another agent', ['getAgent', { params: { id: '8' } }], { scope: 'agent:9', kind: 'agent', id: '9' }, false],
  ['a read of another kind', ['listTemplates', {}], { scope: 'stack:1', kind: 'stack', id: '1' }, false],
  ['an unknown kind', ['listStacks', {}], { scope: 'x:1', kind: 'novelty', id: null }, false],
])('%s', (_, key, change, expected) => {
  expect(isAffected(key, change)).toBe(expected)
})
