import { expect, test } from 'vitest'
import { ApiError, ConnectionError } from './errors.ts'
import { createKey, decideRetry } from './retry.ts'

const answer = (
  status: number,
  more: { retryAfterSeconds?: number; hasBody?: boolean; code?: 'stack_moved' | 'idempotency_in_progress' } = {},
) => new ApiError(more.code ?? 'overloaded', 'm', { status, hasBody: more.hasBody ?? true, retryAfterSeconds: more.retryAfterSeconds })
const lost = new ConnectionError('http://127.0.0.1', new Error('reset'))

test.each([
  ['a lost connection', lost, 'retry'],
  ['429', answer(429, { retryAfterSeconds: 1 }), 'retry'],
  ['503 with a time', answer(503, { retryAfterSeconds: 1 }), 'retry'],
  ['503 of a missing setting', answer(503), 'fail'],
  ['503 of a proxy', answer(503, { hasBody: false }), 'retry'],
  ['502', answer(502, { hasBody: false }), 'retry'],
  ['a longer wait than it takes', answer(503, { retryAfterSeconds: 60 }), 'fail'],
  ['500', answer(500), 'fail'],
  ['409', answer(409, { code: 'stack_moved' }), 'fail'],
  ['the first attempt still runs', answer(409, { code: 'idempotency_in_progress' }), 'retry'],
] as const)('%s: %3$s', (_what, error, expected) => {
  expect(decideRetry({ error, number: 1, retriesMax: 3, random: 0.5 }).do).toBe(expected)
})

test('attempts are counted, and waits grow up to their limit and respect Retry-After', () => {
  expect(decideRetry({ error: lost, number: 4, retriesMax: 3, random: 0 })).toEqual({ do: 'fail' })
  const waits = [1, 2, 3, 10].map((number) => decideRetry({ error: lost, number, retriesMax: 20, random: 1 }))
  expect(waits.map((one) => (one.do === 'retry' ? one.afterMs : -1))).toEqual([200, 400, 800, 10_000])
  expect(decideRetry({ error: answer(429, { retryAfterSeconds: 2 }), number: 1, retriesMax: 3, random: 0 })).toEqual({
    do: 'retry',
    afterMs: 2000,
  })
})

test('a key is a random UUID', () => {
  expect(createKey()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(createKey()).not.toBe(createKey())
})
