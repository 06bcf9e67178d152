import { expect, test } from 'vitest'
import { EffectSlots } from './effect-slots.ts'

test('a Pipeline without a slot is woken when one is released, the longest waiting first', () => {
  const woken: string[] = []
  const slots = new EffectSlots(1, (key) => woken.push(key))
  const release = slots.take('a')
  expect([slots.take('b'), slots.take('c'), slots.take('b'), woken]).toEqual([null, null, null, []])
  release?.()
  expect(woken).toEqual(['b'])
  slots.take('b')?.()
  expect(woken).toEqual(['b', 'c'])
  slots.take('c')?.()
  expect(woken).toEqual(['b', 'c'])
})
