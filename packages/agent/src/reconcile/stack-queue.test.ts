import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { type AttemptResult, StackQueue, Superseded } from './stack-queue.ts'

const done: AttemptResult = { next: 'done' }

/** Work that ends when the test says so, by stack. */
function bench(concurrency = 10) {
  const clock = manualClock()
  const limit = { concurrency }
  const queue = new StackQueue(
    { clock, log: silentLog },
    { concurrency: () => limit.concurrency, attemptMs: () => 900_000, retryMaxMs: () => 300_000 },
  )
  const log: string[] = []
  const open = new Map<string, { finish(turn?: AttemptResult): void; signal: AbortSignal }>()
  queue.start((stackId, signal) => {
    log.push(`begin ${stackId}`)
    const { promise, resolve } = Promise.withResolvers<AttemptResult>()
    signal.addEventListener('abort', () => {
      log.push(`${(signal.reason as Error).name} ${stackId}`)
      resolve(done)
    })
    open.set(stackId, { signal, finish: (turn = done) => resolve(turn) })
    return promise.finally(() => open.delete(stackId))
  })
  const settle = () => clock.advance(0)
  return {
    clock,
    queue,
    log,
    limit,
    settle,
    open,
    finish: async (stackId: string, turn?: AttemptResult) => (open.get(stackId)?.finish(turn), settle()),
  }
}

test('stacks run in parallel up to the limit, each on one worker', async () => {
  const { queue, open, settle, finish } = bench(3)
  for (const stackId of ['a', 'b', 'c', 'd']) queue.enqueueChange(stackId, 'apply')
  queue.enqueue('a')
  queue.enqueue('a')
  await settle()
  expect([...open.keys()]).toEqual(['a', 'b', 'c'])
  await finish('a')
  expect([...open.keys()].toSorted()).toEqual(['b', 'c', 'd'])
  await finish('b')
  expect([...open.keys()].toSorted()).toEqual(['a', 'c', 'd'])
})

test('a higher worker limit applies at once, a lower one as attempts end', async () => {
  const { queue, open, limit, settle, finish } = bench(1)
  for (const stackId of ['a', 'b', 'c', 'd', 'e', 'f']) queue.enqueueChange(stackId, 'apply')
  await settle()
  expect([...open.keys()]).toEqual(['a'])
  limit.concurrency = 3
  queue.resize()
  await settle()
  expect([...open.keys()]).toEqual(['a', 'b', 'c'])
  limit.concurrency = 1
  queue.resize()
  await Promise.all([finish('a'), finish('b')])
  expect([...open.keys()]).toEqual(['c'])
  await finish('c')
  expect([...open.keys()]).toEqual(['d'])
})

test('a newer object aborts the attempt and runs next; a repeated reconcile does not', async () => {
  const { queue, log, settle } = bench()
  queue.enqueueChange('a', 'apply')
  await settle()
  queue.enqueue('a')
  await settle()
  expect(log).toEqual(['begin a'])
  for (let sequence = 0; sequence < 50; sequence++) queue.enqueueChange('a', 'apply')
  await settle()
  expect(log).toEqual(['begin a', 'Superseded a', 'begin a'])
})

test('a failed stack is retried with growing pauses, and a change resets them', async () => {
  const { queue, clock, log, finish, settle } = bench()
  const pauses: number[] = []
  const retry: AttemptResult = { next: 'retry', afterMs: undefined, onScheduled: (ms) => void pauses.push(ms) }
  queue.enqueueChange('a', 'apply')
  await settle()
  for (let failure = 0; failure < 12; failure++) {
    await finish('a', retry)
    await clock.advance(360_000)
  }
  expect(log.length).toBe(13)
  pauses.forEach((ms, index) => {
    const step = Math.min(300_000, 1_000 * 2 ** index)
    expect(ms).toBeGreaterThanOrEqual(step * 0.8)
    expect(ms).toBeLessThanOrEqual(step * 1.2)
  })
  queue.enqueueChange('a', 'apply')
  await settle()
  await finish('a', retry)
  expect(pauses.at(-1)).toBeLessThanOrEqual(1_200)
})

test('an attempt beyond its time limit is aborted', async () => {
  const { queue, clock, log, settle } = bench()
  queue.enqueueChange('a', 'apply')
  await settle()
  await clock.advance(900_000)
  expect(log).toEqual(['begin a', 'AttemptTimeout a'])
})

test('a removal waits for applies queued before it and for no later ones', async () => {
  const { queue, open, settle, finish } = bench()
  queue.enqueueChange('put-1', 'apply')
  queue.enqueueChange('put-2', 'apply')
  await settle()
  queue.enqueueChange('gone', 'remove')
  queue.enqueueChange('put-3', 'apply')
  queue.enqueue('gone')
  await settle()
  expect([...open.keys()]).toEqual(['put-1', 'put-2', 'put-3'])
  await finish('put-1', { next: 'retry', afterMs: undefined, onScheduled: () => undefined })
  expect(open.has('gone')).toBe(false)
  // A newer level of an apply still counts as the same turn.
  queue.enqueueChange('put-2', 'apply')
  await settle()
  expect(open.has('gone')).toBe(false)
  await finish('put-2')
  expect(open.has('gone')).toBe(true)
})

test('a removal does not wait for an apply that becomes a removal', async () => {
  const { queue, open, settle, finish } = bench(1)
  queue.enqueueChange('busy', 'apply')
  await settle()
  queue.enqueueChange('a', 'apply')
  queue.enqueueChange('b', 'remove')
  queue.enqueueChange('a', 'remove')
  await finish('busy')
  await finish('a')
  await finish('b')
  expect(open.size).toBe(0)
  queue.enqueueChange('c', 'remove')
  await settle()
  expect([...open.keys()]).toEqual(['c'])
})

test('stop aborts running attempts and starts no new ones', async () => {
  const { queue, open, settle } = bench()
  queue.enqueueChange('a', 'apply')
  await settle()
  const { signal } = open.get('a')!
  await queue.stop()
  expect(signal.reason).not.toBeInstanceOf(Superseded)
  queue.enqueueChange('b', 'apply')
  await settle()
  expect(open.size).toBe(0)
})

test('an attempt that throws stops neither its worker nor its stack', async () => {
  const clock = manualClock()
  const queue = new StackQueue({ clock, log: silentLog }, { concurrency: () => 1, attemptMs: () => 1_000, retryMaxMs: () => 1_000 })
  let turns = 0
  queue.start(() => {
    turns += 1
    return turns === 1 ? Promise.reject(new Error('a bug')) : Promise.resolve(done)
  })
  queue.enqueueChange('a', 'apply')
  await clock.advance(5_000)
  expect(turns).toBe(2)
})
