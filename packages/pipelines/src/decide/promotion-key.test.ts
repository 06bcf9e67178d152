import { expect, test } from 'vitest'
import { promotionKey, promotionName, toLabelValue } from './promotion-key.ts'

const identity = { pipelineUid: '0b7c3f0e-6d0a-4a0e-9a53-2f0f6c1f9a11', environment: 'prod', run: 7, series: 1 }

test('the key of a promotion is the same everywhere and differs by series', () => {
  expect(promotionKey(identity)).toBe('j6l2wrcfw5hppn6qeadu')
  expect(promotionKey({ ...identity, series: 2 })).toBe('26232k5r77vuwynkdw5v')
})

test('the name of a promotion is a valid object name for every environment name', () => {
  expect(promotionName('shop', identity)).toBe('shop-prod-7-1-j6l2wrcf')
  const long = promotionName('p'.repeat(253), { ...identity, environment: 'EU.West_1' })
  expect(long).toMatch(/^p{120}-eu-west-1-7-1-[a-z2-7]{8}$/)
  expect(toLabelValue(`${'a'.repeat(62)}..b`)).toBe('a'.repeat(62))
})
