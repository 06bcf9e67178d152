import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { createRequestLimiter } from './request-limiter.ts'

const setup = (limits: { inFlight?: number; qps?: number; burst?: number }) => {
  const clock = manualClock()
  return { clock, limiter: createRequestLimiter({ clock }, { inFlight: 100, qps: 0, burst: 1, ...limits }) }
}

test('requests in flight stay within the limit and start in order', async () => {
  const { limiter } = setup({ inFlight: 2 })
  const order: number[] = []
  const enter = async (number: number) => {
    const leave = await limiter.acquire()
    order.push(number)
    return leave
  }
  const leaves = [1, 2, 3, 4].map(enter)
  const [first] = await Promise.all([leaves[0], leaves[1]])
  expect([order, limiter.active, limiter.waiting]).toEqual([[1, 2], 2, 2])
  first?.()
  first?.()
  await leaves[2]
  expect([order, limiter.active, limiter.waiting]).toEqual([[1, 2, 3], 2, 1])
  limiter.set({ inFlight: 3 })
  await leaves[3]
  expect(order).toEqual([1, 2, 3, 4])
})

test("an aborted wait leaves the queue with the signal's reason", async () => {
  const { limiter } = setup({ inFlight: 1 })
  const leave = await limiter.acquire()
  const controller = new AbortController()
  const reason = new Error('enough')
  const waiting = limiter.acquire(controller.signal)
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  await expect(limiter.acquire(controller.signal)).rejects.toBe(reason)
  leave()
  expect([limiter.active, limiter.waiting]).toEqual([0, 0])
})

test('a rate allows a burst at once and the rest per second', async () => {
  const { clock, limiter } = setup({ qps: 10, burst: 3 })
  let entered = 0
  for (let call = 0; call < 10; call++) void limiter.acquire().then(() => entered++)
  await clock.advance(0)
  expect(entered).toBe(3)
  await clock.advance(100)
  expect(entered).toBe(4)
  await clock.advance(200)
  expect(entered).toBe(6)
  limiter.set({ qps: 0 })
  await clock.advance(0)
  expect(entered).toBe(10)
})
