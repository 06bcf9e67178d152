import { expect, test, vi } from 'vitest'
import { systemClock } from './clock.ts'

test('a sleep ends after its time', async () => {
  const startedMs = systemClock.monotonicMs()
  await systemClock.sleep(20)
  expect(systemClock.monotonicMs() - startedMs).toBeGreaterThanOrEqual(19)
})

test('a sleep rejects with the reason of its signal, also if it was aborted before', async () => {
  const reason = new Error('stop')
  const controller = new AbortController()
  const sleeping = systemClock.sleep(600_000, controller.signal)
  controller.abort(reason)
  await expect(sleeping).rejects.toBe(reason)
  await expect(systemClock.sleep(600_000, controller.signal)).rejects.toBe(reason)
})

test('a reason that is no error becomes one', async () => {
  await expect(systemClock.sleep(1, AbortSignal.abort('because'))).rejects.toThrow('stopped: because')
})

test('a timer beyond the 24 days that Node can count does not fire at once', () => {
  vi.useFakeTimers()
  try {
    const fire = vi.fn<() => void>()
    const days = 86_400_000
    systemClock.setTimer(40 * days, fire)
    const cancelled = systemClock.setTimer(40 * days, fire)
    vi.advanceTimersByTime(39 * days)
    expect(fire).not.toHaveBeenCalled()
    cancelled.cancel()
    vi.advanceTimersByTime(2 * days)
    expect(fire).toHaveBeenCalledTimes(1)
  } finally {
    vi.useRealTimers()
  }
})
