// Changes of a Promotion's status: entering a phase, beginning and ending an attempt. Pure; the writer adds the leader's epoch.
import { durationMs } from '@brokkr/contract/pipelines/fields.ts'
import type { Attempt, Effect, FailureClass, Phase, PromotionSpec, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { type Condition, setCondition, timeText } from '@brokkr/kube'

export interface PhaseChange {
  readonly reason?: string
  readonly message?: string
  readonly more?: Partial<PromotionStatus>
}

const CONDITION_OF: Partial<Record<Phase, string>> = {
  Applied: 'Applied',
  Verifying: 'Applied',
  Succeeded: 'Succeeded',
  Blocked: 'Blocked',
}

/** Reason and message of the phase before are dropped; `phaseSince` moves only when the phase changes. */
export function enterPhase(status: PromotionStatus, phase: Phase, nowMs: number, change: PhaseChange = {}): PromotionStatus {
  const { reason: _reason, message: _message, ...kept } = status
  return {
    ...kept,
    phase,
    phaseSince: status.phase === phase && status.phaseSince !== undefined ? status.phaseSince : timeText(nowMs),
    ...(change.reason === undefined ? {} : { reason: change.reason }),
    ...(change.message === undefined ? {} : { message: change.message }),
    conditions: [...conditionsFor(status, phase, nowMs, change)],
    ...change.more,
  }
}

function conditionsFor(status: PromotionStatus, phase: Phase, nowMs: number, change: PhaseChange): readonly Condition[] {
  let conditions = (status.conditions ?? []) as readonly Condition[]
  const isApproved = status.phase === 'AwaitingApproval' && phase === 'Queued'
  const set = (type: string, isTrue: boolean) => {
    const news = { type, status: isTrue ? 'True' : 'False', reason: change.reason ?? phase, message: change.message ?? '' } as const
    conditions = setCondition(conditions, news, nowMs)
  }
  if (isApproved) set('Approved', true)
  const type = CONDITION_OF[phase]
  if (type !== undefined) set(type, true)
  if (phase !== 'Blocked' && conditions.some((condition) => condition.type === 'Blocked' && condition.status === 'True'))
    set('Blocked', false)
  return conditions
}

const ATTEMPTS_KEPT = 10

/** Longest rate limit that is waited for. */
export const RATE_LIMIT_CAP_MS = 2 * 3_600_000

/** W2. A promotion that is Running already resumes its last attempt: a crash uses up no further one. */
export function beginAttempt(status: PromotionStatus, nowMs: number): PromotionStatus {
  if (status.phase === 'Running' && status.attempts?.at(-1)?.outcome === 'running') return status
  const number = (status.attemptCount ?? 0) + 1
  const attempt: Attempt = { number, startedAt: timeText(nowMs), outcome: 'running' }
  const { nextAttemptAt: _due, ...kept } = status
  return {
    ...enterPhase(kept, 'Running', nowMs),
    attemptCount: number,
    firstAttemptAt: status.firstAttemptAt ?? timeText(nowMs),
    attempts: [...(status.attempts ?? []), attempt].slice(-ATTEMPTS_KEPT),
  }
}

export function endAttempt(status: PromotionStatus, nowMs: number, end: Pick<Attempt, 'outcome' | 'class' | 'message'>): PromotionStatus {
  const attempts = status.attempts ?? []
  const last = attempts.at(-1)
  if (last === undefined) return status
  return { ...status, attempts: [...attempts.slice(0, -1), { ...last, ...end, endedAt: timeText(nowMs) }] }
}

export const mergeEffect = (status: PromotionStatus, effect: Effect): PromotionStatus => ({
  ...status,
  effect: { ...status.effect, ...effect },
})

export interface Failure {
  readonly class: FailureClass
  readonly reason: string
  readonly message: string
  readonly retryAfterMs?: number | undefined
  readonly blockedOn?: PromotionStatus['blockedOn'] | undefined
}

/** The state after a failed attempt: the class decides, then the budget of attempts and time. `delayMs` is the backoff of this attempt. */
export function afterFailure(
  status: PromotionStatus,
  spec: Pick<PromotionSpec, 'attempts' | 'attemptAge'>,
  failure: Failure,
  now: { nowMs: number; delayMs: number },
): PromotionStatus {
  const { nowMs } = now
  const ended = endAttempt(status, nowMs, { outcome: 'failed', class: failure.class, message: failure.message.slice(0, 4096) })
  const change = { reason: failure.reason, message: failure.message }
  if (failure.class === 'configuration')
    return enterPhase(ended, 'Blocked', nowMs, { ...change, more: failure.blockedOn ? { blockedOn: failure.blockedOn } : {} })
  if (failure.class === 'refusal') return enterPhase(ended, 'Failed', nowMs, change)
  if (failure.class === 'rate-limited') {
    // A rate limit says nothing about the promotion, so it uses up no attempt.
    const nextAttemptAt = timeText(nowMs + Math.max(1000, failure.retryAfterMs || 60_000) + 999)
    return enterPhase(ended, 'Queued', nowMs, {
      ...change,
      more: { nextAttemptAt, attemptCount: Math.max(0, (status.attemptCount ?? 1) - 1) },
    })
  }
  const isSpent = (status.attemptCount ?? 1) >= Math.max(1, spec.attempts) || isTooOld(status, spec, nowMs)
  if (isSpent) return enterPhase(ended, 'Errored', nowMs, { reason: 'AttemptsSpent', message: failure.message })
  return enterPhase(ended, 'Queued', nowMs, { ...change, more: { nextAttemptAt: new Date(nowMs + now.delayMs).toISOString() } })
}

const isTooOld = (status: PromotionStatus, spec: Pick<PromotionSpec, 'attemptAge'>, nowMs: number): boolean =>
  status.firstAttemptAt !== undefined && nowMs - Date.parse(status.firstAttemptAt) >= durationMs(spec.attemptAge, '24h')
