import type { PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { expect, test } from 'vitest'
import { isWithdrawalOver, noteWithdrawalFailure, withdrawalPauseMs } from './withdrawal.ts'

const nowMs = Date.UTC(2026, 0, 1, 12)
const at = (seconds: number): string => new Date(nowMs + seconds * 1000).toISOString().replace('.000', '')
const begun = (seconds: number): PromotionStatus => ({ phase: 'Applied', effect: { prNumber: 1, withdrawnAt: at(-seconds) } })

test.each([
  ['a first transient failure', { phase: 'Applied' }, 'transient', '24h', false],
  ['a transient failure after 29 minutes', begun(29 * 60), 'transient', '24h', false],
  ['a transient failure after 30 minutes', begun(30 * 60), 'transient', '24h', true],
  ['a transient failure after the age of attempts', begun(60), 'transient', '1m', true],
  ['a rate limit after 29 minutes', begun(29 * 60), 'rate-limited', '24h', false],
  ['a rate limit after 30 minutes', begun(30 * 60), 'rate-limited', '24h', true],
  ['a first configuration error', { phase: 'Applied' }, 'configuration', '24h', true],
  ['a first refusal', { phase: 'Applied' }, 'refusal', '24h', true],
] as const)('%s ends the withdrawal or not', (_title, status, className, attemptAge, isOver) => {
  expect(isWithdrawalOver(status as PromotionStatus, { attemptAge }, { class: className }, nowMs)).toBe(isOver)
})

test('the time of the first failure stays in the record', () => {
  const first = noteWithdrawalFailure({ phase: 'Applied', effect: { prNumber: 1 } }, { class: 'transient' }, nowMs)
  expect(first).toEqual({ phase: 'Applied', effect: { prNumber: 1, withdrawnAt: at(0) } })
  expect(noteWithdrawalFailure(first, { class: 'transient' }, nowMs + 60_000)).toEqual(first)
})

test.each([
  ['as long as the forge says', { class: 'rate-limited', retryAfterMs: 7000 }, 7],
  ['a minute where the forge says nothing', { class: 'rate-limited' }, 60],
  ['two hours at most', { class: 'rate-limited', retryAfterMs: 86_400_000 }, 7200],
  ['not at all after another failure', { class: 'transient', retryAfterMs: 7000 }, 0],
] as const)('a withdrawal waits %s', (_title, failure, seconds) => {
  const status = noteWithdrawalFailure({ ...begun(60), nextAttemptAt: at(300) }, failure, nowMs)
  expect(withdrawalPauseMs(status, nowMs)).toBe(seconds * 1000)
  expect(withdrawalPauseMs(status, nowMs + seconds * 1000)).toBe(0)
})

test('a withdrawal does not wait for the next attempt, nor after the clock was set back', () => {
  expect(withdrawalPauseMs({ phase: 'Queued', nextAttemptAt: at(300) }, nowMs)).toBe(0)
  expect(withdrawalPauseMs({ ...begun(60), nextAttemptAt: at(8000) }, nowMs)).toBe(0)
})
