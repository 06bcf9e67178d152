import { expect, test } from 'vitest'
import { readFlow } from './read-flow.ts'

const flow = 'apiVersion: dataflow.dataflow.io/v1\nkind: DataFlow\nmetadata:\n  name: orders\nspec: {}\n'

test('the first flow of several documents is read, or the one with the name', () => {
  const text = `kind: ConfigMap\n---\n${flow}---\n${flow.replace('orders', 'bills')}`
  expect(readFlow(text).flow).toMatchObject({ metadata: { name: 'orders' } })
  expect(readFlow(text, 'bills').flow).toMatchObject({ metadata: { name: 'bills' } })
  expect(readFlow(JSON.stringify({ kind: 'DataFlow', spec: 1 })).flow).toEqual({ kind: 'DataFlow', spec: 1 })
})

test.each([
  ['', /empty/],
  ['  \n', /empty/],
  ['kind: ConfigMap', /no DataFlow/],
  ['a: [1', /line 1/],
  ['a: 1\na: 2', /line 2/],
  ['text', /no DataFlow/],
  ['x'.repeat(1_000_001), /more than 1000000 characters/],
])('%j is refused with a reason', (text, reason) => {
  const { flow: found, problems } = readFlow(text)
  expect([found, problems[0]]).toEqual([null, expect.stringMatching(reason)])
})
