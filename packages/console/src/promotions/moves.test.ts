import { expect, test } from 'vitest'
import { findPromotion, isTarget } from './moves.ts'
import type { PipelineLane, PromotionCard } from './promotion-model.ts'

const environment = (name: string, revision: string | null) => ({ name, revision, isReady: true, targets: 1, ready: 1, error: null })
const lane = (change: Partial<PipelineLane> = {}): PipelineLane => ({
  id: 'shop/web',
  namespace: 'shop',
  name: 'web',
  app: 'Stack web',
  isHeld: false,
  environments: [environment('dev', 'v2'), environment('prod', 'v1')],
  ...change,
})
const card = (change: Partial<PromotionCard>): PromotionCard =>
  ({
    namespace: 'shop',
    pipeline: 'web',
    environment: 'prod',
    revision: 'v2',
    phase: 'AwaitingApproval',
    isOpen: true,
    ...change,
  }) as PromotionCard

test('the revision of an environment moves to the next one', () => {
  expect(findPromotion(lane(), 'dev', [])).toMatchObject({ kind: 'promote', revision: 'v2', to: 'prod' })
  expect(findPromotion(lane(), 'dev', [card({ isOpen: false })])).toMatchObject({ kind: 'promote' })
})

test.each<[string, PipelineLane, string, PromotionCard[]]>([
  ['it is the last environment', lane(), 'prod', []],
  ['dev runs no known revision', lane({ environments: [environment('dev', null), environment('prod', 'v1')] }), 'dev', []],
  ['prod runs this revision', lane({ environments: [environment('dev', 'v1'), environment('prod', 'v1')] }), 'dev', []],
  ['the pipeline is held', lane({ isHeld: true }), 'dev', []],
  ['a promotion to prod is AwaitingApproval', lane(), 'dev', [card({})]],
])('%s: nothing can be moved', (reason, of, from, cards) => {
  expect(findPromotion(of, from, cards)).toBe(reason)
})

test('a move is taken by its own pipeline and column alone', () => {
  const move = { kind: 'approve', card: card({}) } as const
  expect([
    isTarget(move, lane(), 'prod'),
    isTarget(move, lane(), 'dev'),
    isTarget(move, lane({ name: 'other' }), 'prod'),
    isTarget(null, lane(), 'prod'),
  ]).toEqual([true, false, false, false])
})
