import type { Phase, PromotionSpec } from '@brokkr/contract/pipelines/promotion.ts'
import { expect, test } from 'vitest'
import { type EnvironmentView, judgeRun } from './judge-run.ts'

const spec = { run: 3, environment: 'prod', revision: 'b' } as PromotionSpec

/** `Succeeded`: a promotion in that phase · `=b`: no promotion, one ready target on b · `b!`: not ready · `none`: no targets · `-`: no promotion spec. */
function environment(name: string, text: string): EnvironmentView {
  const [what = '', policy] = text.split(' ')
  const shared = { name, promotion: null, targets: [], targetCount: 1, hasPolicy: policy !== '-' }
  if (what === 'none') return { ...shared, targetCount: 0 }
  if (what.startsWith('=')) return { ...shared, targets: [{ ready: !what.endsWith('!'), revision: what.replace(/[=!]/g, '') }] }
  return { ...shared, promotion: { spec: { ...spec, environment: name }, status: { phase: what as Phase } } }
}

test.each<[title: string, staging: string, prod: string, currentRun: number, expected: object]>([
  ['all promotions succeeded', 'Succeeded', 'Succeeded', 3, { state: 'done', reached: ['staging', 'prod'], left: [] }],
  ['an environment has the revision already', '=b', 'Succeeded', 3, { state: 'done', reached: ['staging', 'prod'], left: [] }],
  ['an environment has no targets', 'none', 'Succeeded', 3, { state: 'done', reached: ['staging', 'prod'], left: [] }],
  ['every environment has the revision already', '=b', '=b', 3, { state: 'done', reached: ['staging', 'prod'], left: [] }],
  ['the last environment has no promotion spec', 'Succeeded', '=a -', 3, { state: 'done', reached: ['staging'], left: ['prod'] }],
  ['the first of them has no promotion spec', '=a -', '=a', 3, { state: 'done', reached: [], left: ['staging', 'prod'] }],
  ['one without a promotion spec has the revision', '=b -', 'Succeeded', 3, { state: 'done', reached: ['staging', 'prod'], left: [] }],
  ['a promotion is open', 'Succeeded', 'AwaitingApproval', 3, { state: 'waiting', where: 'prod AwaitingApproval' }],
  ['a promotion does not exist yet', 'Succeeded', '=a', 3, { state: 'waiting', where: 'prod not promoted yet' }],
  ['a target has the revision and is not ready', 'Succeeded', '=b!', 3, { state: 'waiting', where: 'prod not promoted yet' }],
  ['a newer run came before the promotion', 'Succeeded', '=a', 4, { state: 'replaced', by: 4 }],
  ['a newer run came and the promotion is open', 'Succeeded', 'Applied', 4, { state: 'waiting', where: 'prod Applied' }],
  ['a promotion was rejected', 'Succeeded', 'Rejected', 3, { state: 'failed' }],
  ['a promotion was superseded', 'Superseded', '=a', 4, { state: 'failed' }],
])('a run of which %s', (_title, staging, prod, currentRun, expected) => {
  const environments = [environment('staging', staging), environment('prod', prod)]
  expect(judgeRun({ run: 3, revision: 'b', environments, currentRun })).toMatchObject(expected)
})

test('a target that is missing in the status does not count as reached', () => {
  const environments = [{ ...environment('prod', '=b'), targetCount: 2 }]
  expect(judgeRun({ run: 3, revision: 'b', environments, currentRun: 3 }).state).toBe('waiting')
})
