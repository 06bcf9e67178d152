import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { KubeError, type KubeReason } from './api-error.ts'
import { API_RETRY, NO_RETRY, nextTryMs, retrying } from './retry.ts'

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
])('%s is tried again: %s', (reason, again) => {
  expect(nextTryMs(failing(reason), none, API_RETRY) !== undefined).toBe(again)
  expect(nextTryMs(failing(reason), none, NO_RETRY)).toBeUndefined()
})

test('a conflict over fields is not a race and is not tried again', () => {
  const causes = [{ reason: 'FieldManagerConflict', message: 'conflict with "x"', field: '.a' }]
  expect(nextTryMs(new KubeError('c', { reason: 'Conflict', details: { causes } }), none, API_RETRY)).toBeUndefined()
})

test('the server’s own pause is kept, up to the bound; ours doubles up to it', () => {
  expect(nextTryMs(failing('TooManyRequests', 3_000), none, API_RETRY)).toBe(3_000)
  expect(nextTryMs(failing('TooManyRequests', 900_000), none, API_RETRY)).toBe(60_000)
  for (const [tries, ms] of [
    [0, 1_000],
    [3, 8_000],
    [20, 60_000],
  ] as const) {
    const wait = nextTryMs(failing('Unreachable'), { ...none, transient: tries }, API_RETRY) ?? 0
    expect(wait).toBeGreaterThanOrEqual(ms * 0.8)
    expect(wait).toBeLessThanOrEqual(ms * 1.2)
  }
  expect(nextTryMs(failing('Unreachable'), { ...none, waitedMs: 299_500 }, API_RETRY)).toBeUndefined()
})

test('a call succeeds after the pauses it was asked for', async () => {
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

test('an abort ends a pause with its own reason', async () => {
  const reason = new Error('newer')
  const controller = new AbortController()
  const clock = manualClock()
  const work = retrying({ clock }, API_RETRY, () => Promise.reject(failing('Unreachable')), controller.signal)
  setImmediate(() => controller.abort(reason))
  await expect(work).rejects.toBe(reason)
  expect(clock.waiting).toBe(0)
})
