import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { KubeError, type KubeReason } from './kube-error.ts'
import { API_RETRY, getRetryDelayMs, NO_RETRY, retrying } from './retry.ts'

const failing = (reason: KubeReason, retryAfterMs?: number) => new KubeError(reason, { reason, retryAfterMs })
const none = { transient: 0, conflicts: 0, waitedMs: 0 }

test.each<[KubeReason, boolean]>([
  ['TooManyRequests', true],
  ['ServiceUnavailable', true],
  ['InternalError', true],
  ['Unreachable', true],
  ['TimedOut', true],
  ['Conflict', true],
  ['AlreadyExists', true],
  ['Invalid', false],
  ['Forbidden', false],
  ['NotFound', false],
  ['Unauthorized', false],
  ['BadAnswer', false],
])('%s is retried: %s', (reason, again) => {
  expect(getRetryDelayMs(failing(reason), none, API_RETRY) !== undefined).toBe(again)
  expect(getRetryDelayMs(failing(reason), none, NO_RETRY)).toBeUndefined()
})

test('a field conflict is not retried', () => {
  const causes = [{ reason: 'FieldManagerConflict', message: 'conflict with "x"', field: '.a' }]
  expect(getRetryDelayMs(new KubeError('c', { reason: 'Conflict', details: { causes } }), none, API_RETRY)).toBeUndefined()
})

test('the wait is Retry-After or doubles, up to the limit', () => {
  expect(getRetryDelayMs(failing('TooManyRequests', 3_000), none, API_RETRY)).toBe(3_000)
  expect(getRetryDelayMs(failing('TooManyRequests', 900_000), none, API_RETRY)).toBe(60_000)
  for (const [tries, ms] of [
    [0, 1_000],
    [3, 8_000],
    [20, 60_000],
  ] as const) {
    const wait = getRetryDelayMs(failing('Unreachable'), { ...none, transient: tries }, API_RETRY) ?? 0
    expect(wait).toBeGreaterThanOrEqual(ms * 0.8)
    expect(wait).toBeLessThanOrEqual(ms * 1.2)
  }
  expect(getRetryDelayMs(failing('Unreachable'), { ...none, waitedMs: 299_500 }, API_RETRY)).toBeUndefined()
})

test('a call succeeds after the requested waits', async () => {
  const clock = manualClock()
  const at: number[] = []
  const work = retrying({ clock }, API_RETRY, async () => {
    at.push(clock.monotonicMs())
    if (at.length < 3) throw failing('TooManyRequests', 3_000)
    return 'done'
  })
  await clock.advance(10_000)
  expect([await work, at]).toEqual(['done', [0, 3_000, 6_000]])
})

test("an abort ends a wait with the signal's reason", async () => {
  const reason = new Error('newer')
  const controller = new AbortController()
  const clock = manualClock()
  const work = retrying({ clock }, API_RETRY, () => Promise.reject(failing('Unreachable')), controller.signal)
  setImmediate(() => controller.abort(reason))
  await expect(work).rejects.toBe(reason)
  expect(clock.waiting).toBe(0)
})
