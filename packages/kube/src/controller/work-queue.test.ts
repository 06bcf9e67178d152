import { manualClock } from '@brokkr/testing/clock.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { WorkQueue } from './work-queue.ts'

const setup = () => {
  const clock = manualClock()
  return { clock, queue: new WorkQueue({ clock }, { baseMs: 100, maxMs: 1_000 }) }
}

test('a key added twice waits once, and keys are returned in order', async () => {
  const { queue } = setup()
  for (const key of ['a', 'b', 'a', 'c', 'b']) queue.add(key)
  expect([await queue.take(), await queue.take(), await queue.take(), queue.waiting]).toEqual(['a', 'b', 'c', 0])
})

test('an active key is returned again only once, after done', async () => {
  const { queue } = setup()
  queue.add('a')
  await queue.take()
  queue.add('a')
  queue.add('a')
  expect([queue.waiting, queue.active]).toEqual([0, 1])
  queue.done('a')
  expect(await queue.take()).toBe('a')
  queue.done('a')
  expect([queue.waiting, queue.active]).toEqual([0, 0])
})

test('the earlier of two delays counts, and an immediate add overrides both', async () => {
  const { clock, queue } = setup()
  queue.addAfter('a', 500)
  queue.addAfter('a', 100)
  queue.addAfter('a', 900)
  await clock.advance(99)
  expect(queue.waiting).toBe(0)
  await clock.advance(1)
  expect(queue.waiting).toBe(1)
  queue.addAfter('b', 100)
  queue.add('b')
  expect([queue.waiting, queue.delayed]).toEqual([2, 0])
  await clock.advance(1_000)
  expect(queue.waiting).toBe(2)
})

test('the retry delay grows to its limit and is reset by forget', () => {
  const { queue } = setup()
  const pauses = [1, 2, 3, 4, 5, 6].map(() => queue.retry('a'))
  expect(pauses).toEqual([100, 200, 400, 800, 1_000, 1_000])
  queue.forget('a')
  expect(queue.retry('a')).toBe(100)
  expect(queue.retry('b', 5_000)).toBe(5_000)
})

test('close wakes takers, drops waiting keys and lets active keys finish', async () => {
  const { queue } = setup()
  queue.add('a')
  await queue.take()
  queue.add('b')
  queue.addAfter('c', 10)
  const idle = queue.whenIdle()
  queue.close()
  expect(await queue.take()).toBeUndefined()
  queue.add('d')
  expect([queue.waiting, queue.delayed]).toEqual([0, 0])
  queue.done('a')
  await idle
})

test('a key is never active twice, and no added key is lost', async () => {
  const key = fc.constantFrom('a', 'b', 'c')
  const step = fc.oneof(
    fc.record({ do: fc.constantFrom('add' as const, 'later' as const, 'retry' as const), key }),
    fc.record({ do: fc.constantFrom('take' as const, 'done' as const, 'wait' as const), key }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const { clock, queue } = setup()
      const hands: string[] = []
      const owed = new Set<string>()
      const take = async () => {
        const taken = (await queue.take()) as string
        expect(hands).not.toContain(taken)
        hands.push(taken)
        owed.delete(taken)
      }
      for (const { do: what, key: name } of steps) {
        if (what === 'add' || what === 'later' || what === 'retry') owed.add(name)
        if (what === 'add') queue.add(name)
        if (what === 'later') queue.addAfter(name, 50)
        if (what === 'retry') queue.retry(name)
        if (what === 'wait') await clock.advance(2_000)
        if (what === 'take' && queue.waiting > 0) await take()
        if (what === 'done' && hands.length > 0) queue.done(hands.shift() as string)
      }
      await clock.advance(5_000)
      for (const taken of hands.splice(0)) queue.done(taken)
      while (queue.waiting > 0) {
        await take()
        queue.done(hands.pop() as string)
      }
      expect([...owed]).toEqual([])
    }),
  )
})
