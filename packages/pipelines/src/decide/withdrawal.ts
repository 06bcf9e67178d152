// A withdrawal that fails: when it is tried again, and when the promotion ends without it. An older promotion must not stop newer ones
// for ever, so the time since the first failure, which is in the record, is bounded. Pure.
import { durationMs } from '@brokkr/contract/pipelines/fields.ts'
import type { PromotionSpec, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { timeText } from '@brokkr/kube'
import { type Failure, mergeEffect, RATE_LIMIT_CAP_MS } from './promotion-status.ts'

const WITHDRAWAL_MS_MAX = 30 * 60_000
const RATE_LIMIT_MS = 60_000

/** Whether the promotion ends although its effect is open: only a person can help, or it was tried long enough. */
export function isWithdrawalOver(
  status: PromotionStatus,
  spec: Pick<PromotionSpec, 'attemptAge'>,
  failure: Pick<Failure, 'class'>,
  nowMs: number,
): boolean {
  if (failure.class === 'configuration' || failure.class === 'refusal') return true
  const startedAt = status.effect?.withdrawnAt
  return startedAt !== undefined && nowMs - Date.parse(startedAt) >= Math.min(WITHDRAWAL_MS_MAX, durationMs(spec.attemptAge, '24h'))
}

/** The record of a withdrawal that is tried again: when it began, and when a rate limit ends. */
export function noteWithdrawalFailure(
  status: PromotionStatus,
  failure: Pick<Failure, 'class' | 'retryAfterMs'>,
  nowMs: number,
): PromotionStatus {
  const { nextAttemptAt: _due, ...rest } = status
  const begun = mergeEffect(rest, { withdrawnAt: status.effect?.withdrawnAt ?? timeText(nowMs) })
  if (failure.class !== 'rate-limited') return begun
  const pauseMs = Math.min(RATE_LIMIT_CAP_MS, Math.max(1000, failure.retryAfterMs || RATE_LIMIT_MS))
  return { ...begun, nextAttemptAt: timeText(nowMs + pauseMs + 999) }
}

/** Time until a rate limit of the withdrawal ends; 0: it may be tried now. */
export function withdrawalPauseMs({ effect, nextAttemptAt }: PromotionStatus, nowMs: number): number {
  const pauseMs = Date.parse(nextAttemptAt ?? '') - nowMs
  // A longer pause comes from a clock that was set back.
  return effect?.withdrawnAt !== undefined && pauseMs > 0 && pauseMs <= RATE_LIMIT_CAP_MS + 1000 ? pauseMs : 0
}
