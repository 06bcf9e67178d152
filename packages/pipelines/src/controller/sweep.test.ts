import { startController } from '@brokkr/kube'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { sweep } from './sweep.ts'

/** A queue with two workers whose passes take 10 ms each. */
function open(slow: ReadonlySet<string> = new Set()) {
  const clock = manualClock()
  const passes: string[] = []
  const queue = startController(
    { clock, log },
    {
      name: 'test',
      concurrency: 2,
      reconcile: async (key) => {
        passes.push(key)
        await clock.sleep(slow.has(key) ? 3_600_000 : 10)
        return 'done'
      },
    },
  )
  const keys = Array.from({ length: 100 }, (_, index) => `scan-${index}`)
  return { clock, passes, queue, keys, signal: new AbortController().signal }
}

test('a change during the full scan waits for one batch, not for the scan', async () => {
  const { clock, passes, queue, keys, signal } = open()
  const ended = sweep({ clock }, { queue, keys, batch: 2 }, signal)
  await clock.advance(105)
  const before = passes.length
  queue.enqueue('changed')
  await clock.advance(20)
  expect([before < 30, passes.slice(before, before + 3).includes('changed')]).toEqual([true, true])
  await clock.advance(5_000)
  await ended
  expect(passes).toHaveLength(101)
  await queue.stop()
})

test('a constant load of changes delays the full scan and does not stop it', async () => {
  const { clock, passes, queue, keys, signal } = open()
  for (const key of ['one', 'two', 'three']) queue.enqueue(key)
  const ended = sweep({ clock }, { queue, keys: keys.slice(0, 6), batch: 2 }, signal)
  for (let ms = 0; ms < 5_000; ms += 5) {
    for (const key of ['one', 'two', 'three']) queue.enqueue(key)
    await clock.advance(5)
  }
  await ended
  await clock.advance(100)
  expect(passes.filter((key) => key.startsWith('scan-'))).toHaveLength(6)
  await queue.stop()
})

test('one slow pass does not delay the scan of the other keys', async () => {
  const { clock, passes, queue, keys, signal } = open(new Set(['scan-0']))
  const ended = sweep({ clock }, { queue, keys, batch: 2 }, signal)
  for (let ms = 0; ms < 1_500; ms += 5) await clock.advance(5)
  await ended
  expect(passes).toHaveLength(100)
  const stopped = queue.stop()
  await clock.advance(3_600_000)
  await stopped
})

test('a scan ends when the controller stops', async () => {
  const { clock, queue, keys } = open()
  const stopping = new AbortController()
  const ended = sweep({ clock }, { queue, keys, batch: 2 }, stopping.signal)
  await clock.advance(50)
  stopping.abort()
  await clock.advance(50)
  await ended
  await queue.stop()
})
