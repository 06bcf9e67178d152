import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { EffectReads } from './effect-reads.ts'

const pipeline = { annotations: {} }
const requested = { annotations: { 'reconcile.fluxcd.io/requestedAt': 'now' } }

/** Time since the base of the next read, in seconds. */
function open() {
  const clock = manualClock()
  let jumpMs = 0
  const reads = new EffectReads({ clock: { ...clock, now: () => clock.now() + jumpMs } }, 10_000)
  const ageOf = (at: typeof pipeline) => (clock.now() + jumpMs - (reads.dueBaseMs('p', at, 30_000) ?? Number.NaN)) / 1000
  return { clock, reads, ageOf, jump: (seconds: number) => void (jumpMs += seconds * 1000) }
}

test.each([-3600, 3600])('[C12] a clock that jumps by %i s neither delays nor repeats the read of an effect', async (seconds) => {
  const { clock, reads, ageOf, jump } = open()
  reads.record('p', pipeline)
  await clock.advance(10_000)
  jump(seconds)
  expect(ageOf(pipeline)).toBe(10)
})

test('a requested pass reads again after the shortest interval', async () => {
  const { clock, reads, ageOf } = open()
  expect(reads.dueBaseMs('p', pipeline, 30_000)).toBeNull()
  reads.record('p', pipeline)
  await clock.advance(4_000)
  expect([ageOf(pipeline), ageOf(requested)]).toEqual([4, 24])
})

test('effects of promotions that have ended are forgotten', () => {
  const { reads } = open()
  reads.record('p', pipeline)
  reads.keep(new Set())
  expect(reads.dueBaseMs('p', pipeline, 30_000)).toBeNull()
})
