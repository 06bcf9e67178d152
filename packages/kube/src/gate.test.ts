import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { createGate } from './gate.ts'

const setup = (limits: { inFlight?: number; qps?: number; burst?: number }) => {
  const clock = manualClock()
  return { clock, gate: createGate({ clock }, { inFlight: 100, qps: 0, burst: 1, ...limits }) }
}

test('no more than the limit are in, and the first to come is the first to go in', async () => {
  const { gate } = setup({ inFlight: 2 })
  const order: number[] = []
  const enter = async (number: number) => {
    const leave = await gate.enter()
    order.push(number)
    return leave
  }
  const leaves = [1, 2, 3, 4].map(enter)
  const [first] = await Promise.all([leaves[0], leaves[1]])
  expect([order, gate.active, gate.waiting]).toEqual([[1, 2], 2, 2])
  first?.()
  first?.()
  await leaves[2]
  expect([order, gate.active, gate.waiting]).toEqual([[1, 2, 3], 2, 1])
  gate.set({ inFlight: 3 })
  await leaves[3]
  expect(order).toEqual([1, 2, 3, 4])
})

test('who gives up waiting leaves the queue with his own reason', async () => {
  const { gate } = setup({ inFlight: 1 })
  const leave = await gate.enter()
  const controller = new AbortController()
  const reason = new Error('enough')
  const waiting = gate.enter(controller.signal)
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  await expect(gate.enter(controller.signal)).rejects.toBe(reason)
  leave()
  expect([gate.active, gate.waiting]).toEqual([0, 0])
})

test('a rate lets a burst through at once and the rest by the second', async () => {
  const { clock, gate } = setup({ qps: 10, burst: 3 })
  let entered = 0
  for (let call = 0; call < 10; call++) void gate.enter().then(() => entered++)
  await clock.advance(0)
  expect(entered).toBe(3)
  await clock.advance(100)
  expect(entered).toBe(4)
  await clock.advance(200)
  expect(entered).toBe(6)
  gate.set({ qps: 0 })
  await clock.advance(0)
  expect(entered).toBe(10)
})
