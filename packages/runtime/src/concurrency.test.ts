import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLimiter, mapBounded } from './concurrency.ts'

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('keeps the order of the items and never more than the limit at once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(3), { maxLength: 30 }), fc.integer({ min: 1, max: 8 }), async (turns, limit) => {
      let active = 0
      let peak = 0
      const results = await mapBounded(turns, limit, async (count, index) => {
        active += 1
        peak = Math.max(peak, active)
        for (let n = 0; n < count; n += 1) await turn()
        active -= 1
        return index
      })
      expect(results).toEqual(turns.map((_, index) => index))
      expect(peak).toBeLessThanOrEqual(limit)
      expect(active).toBe(0)
    }),
    { numRuns: 50 },
  )
})

test('the first failure starts nothing further and leaves nothing running', async () => {
  const started: number[] = []
  let finished = 0
  const mapping = mapBounded([0, 1, 2, 3, 4, 5], 2, async (n) => {
    started.push(n)
    await turn()
    if (n === 1) throw new Error('item 1')
    await turn()
    finished += 1
  })
  await expect(mapping).rejects.toThrow('item 1')
  expect(started).toEqual([0, 1])
  expect(finished).toBe(1)
})

test('an aborted signal ends the map with its reason', async () => {
  const controller = new AbortController()
  const reason = new Error('enough')
  const started: number[] = []
  const mapping = mapBounded(
    [0, 1, 2, 3],
    1,
    async (n) => {
      started.push(n)
      if (n === 1) controller.abort(reason)
      await turn()
    },
    controller.signal,
  )
  await expect(mapping).rejects.toBe(reason)
  expect(started).toEqual([0, 1])
})

test.each([0, -1, Number.NaN])('a limit of %d is refused', async (limit) => {
  await expect(mapBounded([1], limit, async () => 1)).rejects.toThrow('at least 1')
  await expect(createLimiter(limit).run(async () => 1)).rejects.toThrow('at least 1')
})

test('a limiter admits callers in order, and a failure frees its slot', async () => {
  const limiter = createLimiter(1)
  const order: string[] = []
  const gate = Promise.withResolvers<void>()
  const first = limiter.run(async () => {
    await gate.promise
    throw new Error('first')
  })
  const rest = ['a', 'b', 'c'].map((name) => limiter.run(async () => void order.push(name)))
  expect([limiter.active, limiter.waiting]).toEqual([1, 3])
  gate.resolve()
  await expect(first).rejects.toThrow('first')
  await Promise.all(rest)
  expect(order).toEqual(['a', 'b', 'c'])
  expect([limiter.active, limiter.waiting]).toEqual([0, 0])
})

test('a limiter with a bound on waiting answers overloaded', async () => {
  const limiter = createLimiter(1, { waitingMax: 1 })
  const gate = Promise.withResolvers<void>()
  const held = [limiter.run(() => gate.promise), limiter.run(() => gate.promise)]
  await expect(limiter.run(async () => 1)).rejects.toMatchObject({ name: 'Retryable', code: 'overloaded' })
  gate.resolve()
  await Promise.all(held)
  await expect(limiter.run(async () => 1)).resolves.toBe(1)
})

test('an aborted caller is removed from the queue', async () => {
  const limiter = createLimiter(1)
  const gate = Promise.withResolvers<void>()
  const held = limiter.run(() => gate.promise)
  const controller = new AbortController()
  const impatient = limiter.run(async () => 'never', controller.signal)
  const patient = limiter.run(async () => 'in turn', controller.signal).catch((error: unknown) => error)
  const reason = new Error('client gone')
  const other = limiter.run(async () => 'other')
  controller.abort(reason)
  await expect(impatient).rejects.toBe(reason)
  expect(await patient).toBe(reason)
  expect(limiter.waiting).toBe(1)
  gate.resolve()
  await held
  expect(await other).toBe('other')
  await expect(limiter.run(async () => 1, controller.signal)).rejects.toBe(reason)
  expect([limiter.active, limiter.waiting]).toEqual([0, 0])
})

test('a limit that is a function follows its setting', async () => {
  let limit = 1
  const limiter = createLimiter(() => limit)
  const gates = [1, 2, 3].map(() => Promise.withResolvers<void>())
  const held = gates.map((gate) => limiter.run(() => gate.promise))
  expect(limiter.active).toBe(1)
  limit = 2
  gates[0]?.resolve()
  await held[0]
  expect(limiter.active).toBe(2)
  gates.forEach((gate) => gate.resolve())
  await Promise.all(held)
})
