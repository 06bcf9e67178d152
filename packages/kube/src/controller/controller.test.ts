import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { KubeError } from '../client/kube-error.ts'
import { type ControllerOptions, startController } from './controller.ts'

const setup = (options: Omit<ControllerOptions, 'name'>) => {
  const clock = manualClock()
  const metrics = createMetrics()
  return {
    clock,
    metrics,
    controller: startController({ clock, log, metrics }, { name: 'test', backoff: { baseMs: 1_000, maxMs: 8_000 }, ...options }),
  }
}

test('a key runs again after the time that reconcile returns', async () => {
  const seen: number[] = []
  const { clock, controller } = setup({
    reconcile: async () => (seen.push(clock.monotonicMs()), seen.length < 3 ? { afterMs: 500 } : 'done'),
  })
  controller.enqueue('a')
  await clock.advance(5_000)
  expect(seen).toEqual([0, 500, 1_000])
  await controller.stop()
})

test('a failing key is retried with backoff and does not delay others', async () => {
  const seen: string[] = []
  const { clock, metrics, controller } = setup({
    reconcile: async (key) => {
      seen.push(`${key}@${clock.monotonicMs()}`)
      if (key === 'bad' && seen.length < 5) throw new Error('no')
      return 'done'
    },
  })
  controller.enqueue('bad')
  controller.enqueue('good')
  await clock.advance(60_000)
  expect(seen).toEqual(['bad@0', 'good@0', 'bad@1000', 'bad@3000', 'bad@7000'])
  expect(await metrics.text()).toContain('reconcile_total{controller="test",result="failed"} 3')
  await controller.stop()
})

test('a key waits at least the Retry-After of its error', async () => {
  const seen: number[] = []
  const { clock, controller } = setup({
    reconcile: async () => {
      seen.push(clock.monotonicMs())
      if (seen.length === 1) throw new KubeError('busy', { reason: 'TooManyRequests', retryAfterMs: 6_000 })
      return 'done'
    },
  })
  controller.enqueue('a')
  await clock.advance(10_000)
  expect(seen).toEqual([0, 6_000])
  await controller.stop()
})

test('a key never runs twice in parallel while others run', async () => {
  const running = new Set<string>()
  let most = 0
  const { clock, controller } = setup({
    concurrency: 3,
    reconcile: async (key) => {
      expect(running.has(key)).toBe(false)
      running.add(key)
      most = Math.max(most, running.size)
      await clock.sleep(10)
      running.delete(key)
      return 'done'
    },
  })
  for (let round = 0; round < 20; round++) {
    for (const key of ['a', 'b', 'c', 'd']) controller.enqueue(key)
    await clock.advance(7)
  }
  await clock.advance(1_000)
  await controller.whenIdle()
  expect(most).toBe(3)
  await controller.stop()
})

test('a reconcile above its time limit is aborted and retried', async () => {
  const reasons: unknown[] = []
  const { clock, controller } = setup({
    timeoutMs: 100,
    reconcile: async (_key, signal) => {
      if (reasons.length > 0) return 'done'
      await clock.sleep(1_000_000, signal).catch((error: unknown) => {
        reasons.push(error)
        throw error
      })
      return 'done'
    },
  })
  controller.enqueue('a')
  await clock.advance(10_000)
  expect(String(reasons[0])).toContain('took longer than 100 ms')
  await controller.stop()
})

test('stop waits for running keys until the grace period, then aborts them', async () => {
  const ended: string[] = []
  const { clock, controller } = setup({
    concurrency: 2,
    reconcile: async (key, signal) => {
      await clock.sleep(key === 'quick' ? 50 : 500, signal).then(
        () => ended.push(`${key} finished`),
        () => ended.push(`${key} aborted`),
      )
      return 'done'
    },
  })
  controller.enqueue('quick')
  controller.enqueue('slow')
  await clock.advance(1)
  const stopped = controller.stop({ graceMs: 100 })
  controller.enqueue('late')
  await clock.advance(1_000)
  await stopped
  expect(ended).toEqual(['quick finished', 'slow aborted'])
})
