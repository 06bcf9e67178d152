import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { tidyAfterCrowd } from './after-crowd.ts'

function crowd() {
  const clock = manualClock()
  const state = { isBusy: false, tidied: 0 }
  const after = tidyAfterCrowd({ clock, isBusy: () => state.isBusy, tidy: () => void (state.tidied += 1) })
  const left = (many: number) => {
    for (let n = 0; n < many; n += 1) after.left()
  }
  return { clock, state, after, left }
}

test('a few snapshots leave everything as it is, however long they take', async () => {
  const { clock, state, left } = crowd()
  left(999)
  await clock.advance(600_000)
  expect([state.tidied, clock.waiting]).toEqual([0, 0])
})

test('after many it is tidied once, when the last has left and nobody came for a while', async () => {
  const { clock, state, left } = crowd()
  state.isBusy = true
  left(1_000)
  await clock.advance(60_000)
  expect(state.tidied).toBe(0)
  state.isBusy = false
  left(5)
  await clock.advance(5_000)
  expect(state.tidied).toBe(0)
  await clock.advance(5_000)
  expect([state.tidied, clock.waiting]).toEqual([1, 0])
  left(999)
  await clock.advance(60_000)
  expect(state.tidied).toBe(1)
  left(1)
  await clock.advance(5_000)
  expect(state.tidied).toBe(2)
})

test('whoever stops tidies nothing more', async () => {
  const { clock, state, after, left } = crowd()
  left(2_000)
  after.stop()
  await clock.advance(60_000)
  expect([state.tidied, clock.waiting]).toEqual([0, 0])
})
