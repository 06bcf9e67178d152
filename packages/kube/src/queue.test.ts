import { manualClock } from '@brokkr/testing/clock.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { WorkQueue } from './queue.ts'

const setup = () => {
  const clock = manualClock()
  return { clock, queue: new WorkQueue({ clock }, { baseMs: 100, maxMs: 1_000 }) }
}

test('a key waits once however often it is added, and keys come in the order they came', async () => {
  const { queue } = setup()
  for (const key of ['a', 'b', 'a', 'c', 'b']) queue.add(key)
  expect([await queue.take(), await queue.take(), await queue.take(), queue.waiting]).toEqual(['a', 'b', 'c', 0])
})

test('a key that is worked on is not handed out again before it is done, and then once', async () => {
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

test('of two times for later the earlier counts, and now beats both', async () => {
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

test('the pause after a failure grows to its bound and begins anew once it is forgotten', () => {
  const { queue } = setup()
  const pauses = [1, 2, 3, 4, 5, 6].map(() => queue.retry('a'))
  expect(pauses).toEqual([100, 200, 400, 800, 1_000, 1_000])
  queue.forget('a')
  expect(queue.retry('a')).toBe(100)
  expect(queue.retry('b', 5_000)).toBe(5_000)
})

test('closing wakes the takers, drops what waits and lets what runs be done', async () => {
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

test('whatever is done to it, no key is ever in two hands and none that was added is lost', async () => {
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
