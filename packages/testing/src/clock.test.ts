import fc from 'fast-check'
import { expect, test } from 'vitest'
import { manualClock } from './clock.ts'

test('the time changes only by advance', async () => {
  const clock = manualClock(1_000)
  expect([clock.now(), clock.monotonicMs()]).toEqual([1_000, 0])
  await clock.advance(250)
  expect([clock.now(), clock.monotonicMs()]).toEqual([1_250, 250])
})

test('timers fire in order of time, then of creation, each at its own time', async () => {
  const clock = manualClock(0)
  const fired: [string, number][] = []
  for (const [name, ms] of [
    ['c', 30],
    ['a', 10],
    ['b1', 20],
    ['b2', 20],
    ['later', 41],
  ] as const) {
    clock.setTimer(ms, () => fired.push([name, clock.now()]))
  }
  await clock.advance(40)
  expect(fired).toEqual([
    ['a', 10],
    ['b1', 20],
    ['b2', 20],
    ['c', 30],
  ])
  expect(clock.waiting).toBe(1)
})

test('a loop that sleeps again and again runs through the whole window in one move', async () => {
  const clock = manualClock(0)
  const ticks: number[] = []
  void (async () => {
    for (;;) {
      await clock.sleep(100)
      ticks.push(clock.now())
    }
  })()
  await clock.advance(350)
  expect(ticks).toEqual([100, 200, 300])
})

test('a cancelled timer never fires', async () => {
  const clock = manualClock()
  clock.setTimer(5, () => expect.unreachable()).cancel()
  await clock.advance(10)
})

test('an aborted sleep ends at once with the reason and leaves no timer', async () => {
  const clock = manualClock()
  const stop = new AbortController()
  const sleeping = clock.sleep(1_000, stop.signal)
  stop.abort(new Error('stopped'))
  await expect(sleeping).rejects.toThrow('stopped')
  await expect(clock.sleep(1, stop.signal)).rejects.toThrow('stopped')
  expect(clock.waiting).toBe(0)
})

test.each([-1, Number.NaN, Number.POSITIVE_INFINITY])('time does not move by %d', async (ms) => {
  await expect(manualClock().advance(ms)).rejects.toThrow(RangeError)
})

test('any set of sleeps wakes up sorted, none early and none late', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(500), { maxLength: 20 }), fc.array(fc.nat(200), { maxLength: 8 }), async (sleeps, moves) => {
      const clock = manualClock(0)
      const woken: number[] = []
      for (const ms of sleeps) void clock.sleep(ms).then(() => woken.push(clock.now() - ms))
      for (const ms of moves) await clock.advance(ms)
      const passedMs = moves.reduce((sum, ms) => sum + ms, 0)
      expect(woken).toEqual(sleeps.filter((ms) => ms <= passedMs && moves.length > 0).map(() => 0))
    }),
  )
})
