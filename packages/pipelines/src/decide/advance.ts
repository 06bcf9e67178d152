// The next step of one open promotion: the state machine, from the record and what was observed. Pure; the controller executes the step.
import { durationMs } from '@brokkr/contract/pipelines/fields.ts'
import { isTerminal, type PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import type { PromotionPolicy } from '@brokkr/contract/pipelines/strategy.ts'
import { timeText } from '@brokkr/kube'
import { type PromotionRecord, phaseOf } from '../objects.ts'
import { evaluateGate } from './approval-gate.ts'
import { countTargets, hasLeft, isIndefinite, isSettledOn, type ObservedEnvironment } from './observed.ts'
import { type DecideSettings, isOver } from './policy.ts'
import { enterPhase, RATE_LIMIT_CAP_MS } from './promotion-status.ts'
import type { WindowState } from './windows/evaluate-windows.ts'

export interface Pending {
  readonly reason: string
  readonly message: string
}

export type Advance =
  | { readonly do: 'wait'; readonly wakeAtMs: number | null; readonly pending: Pending | null }
  /** CAS of the status alone. */
  | { readonly do: 'write'; readonly status: PromotionStatus }
  /** W2, then the strategy. */
  | { readonly do: 'attempt' }
  /** E3: read the effect again. */
  | { readonly do: 'observe-effect' }
  /** Look whether what blocks the promotion has changed. */
  | { readonly do: 'observe-block'; readonly pending: Pending }
  /** End an open effect, then write the status. */
  | { readonly do: 'withdraw'; readonly comment: string; readonly status: PromotionStatus }

export interface AdvanceContext {
  readonly nowMs: number
  /** Null: the environment was removed from the Pipeline. */
  readonly environment: ObservedEnvironment | null
  /** The promotion spec of the environment now; null: it was removed. */
  readonly policy: PromotionPolicy | null
  readonly trigger: 'Watch' | 'Webhook'
  readonly isSuspended: boolean
  readonly windows: WindowState
  /** Whether the strategy's effect goes on living after it was made. */
  readonly hasObserver: boolean
  /** When this process last read the effect; null: not yet. */
  readonly effectObservedAtMs: number | null
  readonly isReadRequested: boolean
  /** Version of the strategy's Secret now; undefined: not known. */
  readonly secretVersion: string | undefined
  readonly settings: Pick<DecideSettings, 'retryMaxMs' | 'effectPollMs' | 'blockPollMsMax' | 'blockedRetryMs'>
}

const wait = (wakeAtMs: number | null = null, pending: Pending | null = null): Advance => ({ do: 'wait', wakeAtMs, pending })

export function advancePromotion(promotion: PromotionRecord, context: AdvanceContext): Advance {
  const phase = phaseOf(promotion)
  if (isTerminal(phase)) return wait()
  const { environment } = context
  if (environment === null || context.policy === null || promotion.status.abort !== undefined) return abort(promotion, context)
  const isThere = context.trigger === 'Watch' && isSettledOn(environment, promotion.spec.revision)
  if (phase === 'Applied') return advanceApplied(promotion, context, environment, isThere)
  if (phase === 'Verifying') return advanceVerifying(promotion, context, environment, isThere)
  // A crash left it Running. Its attempt is resumed, because an effect may have been made.
  if (phase === 'Running') return { do: 'attempt' }
  if (!isThere) return advanceEarly(promotion, context, phase)
  const effect = { ...promotion.status.effect, kind: 'none' } as const
  return { do: 'write', status: verify(promotion, environment, context.nowMs, { effect }) }
}

function advanceEarly(
  promotion: PromotionRecord,
  context: AdvanceContext,
  phase: 'Pending' | 'AwaitingApproval' | 'Queued' | 'Blocked',
): Advance {
  if (phase === 'Pending') {
    const next = promotion.spec.approval === undefined ? 'Queued' : 'AwaitingApproval'
    return { do: 'write', status: enterPhase(promotion.status, next, context.nowMs) }
  }
  if (phase === 'AwaitingApproval') return advanceAwaiting(promotion, context.nowMs)
  return phase === 'Blocked' ? advanceBlocked(promotion, context) : advanceQueued(promotion, context)
}

function advanceAwaiting(promotion: PromotionRecord, nowMs: number): Advance {
  const { approval = {}, key, cause } = promotion.spec
  const gate = evaluateGate({ approval, decisions: promotion.status.approvals ?? [], key, cause })
  if (gate.state === 'rejected') {
    const message = `rejected by ${gate.rejectedBy}`
    return { do: 'write', status: enterPhase(promotion.status, 'Rejected', nowMs, { reason: 'Rejected', message }) }
  }
  if (isOver(promotion.status.phaseSince, approval.deadline, nowMs)) {
    const message = `not approved within ${approval.deadline}`
    return { do: 'write', status: enterPhase(promotion.status, 'Expired', nowMs, { reason: 'Expired', message }) }
  }
  if (gate.state === 'open') return { do: 'write', status: enterPhase(promotion.status, 'Queued', nowMs) }
  const message = `${promotion.spec.revision} waits for approval in ${promotion.spec.environment}: ${gate.approvals} of ${gate.required}`
  return wait(endOf(promotion.status.phaseSince, approval.deadline), { reason: 'AwaitingApproval', message })
}

function advanceQueued(promotion: PromotionRecord, context: AdvanceContext): Advance {
  const { nowMs, windows } = context
  const dueMs = dueOf(promotion.status, context)
  if (context.isSuspended) return wait(null, { reason: 'Suspended', message: 'the pipeline is suspended' })
  if (dueMs > nowMs)
    return wait(
      dueMs,
      promotion.status.reason === undefined ? null : { reason: promotion.status.reason, message: promotion.status.message ?? '' },
    )
  if (windows.isOpen) return { do: 'attempt' }
  const opening = windows.nextOpenMs === null ? 'no opening is known' : `opens at ${timeText(windows.nextOpenMs)}`
  const message = `${windows.closedBy === null ? 'no window allows promotions now' : `window ${windows.closedBy} denies promotions now`}; ${opening}`
  return wait(windows.nextBoundaryMs, { reason: 'WindowClosed', message })
}

/** A pause longer than its cap comes from a clock that was set back; it is over. */
function dueOf(status: PromotionStatus, { nowMs, settings }: AdvanceContext): number {
  const dueMs = Date.parse(status.nextAttemptAt ?? '')
  const capMs = status.attempts?.at(-1)?.class === 'rate-limited' ? RATE_LIMIT_CAP_MS : settings.retryMaxMs
  return Number.isNaN(dueMs) || dueMs - nowMs > capMs + 1000 ? nowMs : dueMs
}

function advanceBlocked(promotion: PromotionRecord, context: AdvanceContext): Advance {
  const { status } = promotion
  const { nowMs, settings } = context
  const sinceMs = Date.parse(status.phaseSince ?? '')
  const { blockedOn } = status
  const isSecretChanged =
    blockedOn?.secretVersion !== undefined && context.secretVersion !== undefined && context.secretVersion !== blockedOn.secretVersion
  const retryAtMs = sinceMs + settings.blockedRetryMs
  // A block that begins in the future is from before the clock was set back: how long it lasted is not known.
  const isDue = !(nowMs < retryAtMs) || sinceMs > nowMs
  if (status.retry !== undefined || isSecretChanged || isDue) return { do: 'write', status: endBlock(status, nowMs) }
  const pending = { reason: status.reason ?? 'Blocked', message: status.message ?? '' }
  if (!context.hasObserver || blockedOn?.baseSha === undefined || context.isSuspended) return wait(retryAtMs, pending)
  const readAtMs = context.effectObservedAtMs ?? sinceMs
  const pollAtMs = readAtMs + blockPollMs(context.isReadRequested ? 0 : readAtMs - sinceMs, settings)
  return pollAtMs <= nowMs ? { do: 'observe-block', pending } : wait(Math.min(pollAtMs, retryAtMs), pending)
}

/** The longer a block lasts, the rarer it is looked at: the pause is as long as the block was at the last look. */
const blockPollMs = (blockedMs: number, { effectPollMs, blockPollMsMax }: AdvanceContext['settings']): number =>
  Math.max(effectPollMs, Math.min(blockedMs, blockPollMsMax))

/** Attempts and their age count from the end of the block. */
export function endBlock(status: PromotionStatus, nowMs: number): PromotionStatus {
  const { retry: _retry, blockedOn: _blockedOn, firstAttemptAt: _first, ...kept } = status
  return enterPhase({ ...kept, attemptCount: 0 }, 'Queued', nowMs)
}

function advanceApplied(promotion: PromotionRecord, context: AdvanceContext, environment: ObservedEnvironment, isThere: boolean): Advance {
  const { status, spec } = promotion
  const { nowMs } = context
  const state = status.effect?.prState
  const isWithdrawn = status.effect?.withdrawnAt !== undefined
  // One that the controller closed waits while its targets have the revision, as they had when it was closed. Nothing brings it back to them.
  if (state === 'abandoned' && (!isWithdrawn || context.trigger === 'Webhook' || hasLeft(environment, spec.revision))) {
    const message = isWithdrawn
      ? `its pull request was withdrawn, and the targets are not on ${spec.revision}`
      : 'the pull request was closed without a merge'
    return { do: 'write', status: enterPhase(status, 'Abandoned', nowMs, { reason: 'Abandoned', message }) }
  }
  if (isThere) {
    const next = verify(promotion, environment, nowMs)
    if (!isPullOpen(status) || context.isSuspended) return { do: 'write', status: next }
    return { do: 'withdraw', comment: `All targets of ${spec.environment} run ${spec.revision} already.`, status: next }
  }
  if (context.trigger === 'Webhook' && !isPullOpen(status)) return { do: 'write', status: enterPhase(status, 'Succeeded', nowMs) }
  const appliedAt = status.conditions?.find(({ type }) => type === 'Applied')?.lastTransitionTime
  const isLate = isOver(appliedAt, spec.deadline, nowMs)
  // A suspended pipeline has no effect: an open pull request is closed when the suspension ends.
  if (isLate && !(context.isSuspended && isPullOpen(status))) {
    const message = `the targets did not reach ${spec.revision} within ${spec.deadline}`
    const ended = enterPhase(status, 'Errored', nowMs, { reason: 'DeadlineExceeded', message })
    return isPullOpen(status) ? { do: 'withdraw', comment: `Closed: ${message}.`, status: ended } : { do: 'write', status: ended }
  }
  const deadlineMs = isLate ? null : endOf(appliedAt, spec.deadline)
  if (!context.hasObserver || !isPullOpen(status)) return wait(deadlineMs)
  const pollAtMs = (context.effectObservedAtMs ?? Number.NEGATIVE_INFINITY) + context.settings.effectPollMs
  return pollAtMs <= nowMs ? { do: 'observe-effect' } : wait(Math.min(pollAtMs, deadlineMs ?? pollAtMs))
}

function advanceVerifying(
  promotion: PromotionRecord,
  context: AdvanceContext,
  environment: ObservedEnvironment,
  isThere: boolean,
): Advance {
  const { status, spec } = promotion
  const { nowMs } = context
  if (context.trigger === 'Watch' && !isThere) {
    // Nothing is known of an unreachable target: the soak neither ends nor restarts.
    if (isIndefinite(environment) && !hasLeft(environment, spec.revision)) return wait()
    const observed = countTargets(environment, spec.revision)
    return { do: 'write', status: enterPhase(status, 'Applied', nowMs, { more: { observed } }) }
  }
  const untilMs = Date.parse(status.observed?.soakUntil ?? '')
  // The clock was set back: the soak restarts, so that it lasts no longer than it should from now on.
  if (untilMs - nowMs > durationMs(spec.soak, '0s')) return { do: 'write', status: verify(promotion, environment, nowMs) }
  return nowMs < untilMs ? wait(untilMs) : { do: 'write', status: enterPhase(status, 'Succeeded', nowMs) }
}

/** Without a soak the promotion has Succeeded at once. */
function verify(
  promotion: PromotionRecord,
  environment: ObservedEnvironment,
  nowMs: number,
  more: Partial<PromotionStatus> = {},
): PromotionStatus {
  const soakMs = durationMs(promotion.spec.soak, '0s')
  const observed = {
    ...countTargets(environment, promotion.spec.revision),
    firstReadyAt: timeText(nowMs),
    ...(soakMs > 0 ? { soakUntil: new Date(nowMs + soakMs).toISOString() } : {}),
  }
  return enterPhase(promotion.status, soakMs > 0 ? 'Verifying' : 'Succeeded', nowMs, { more: { observed, ...more } })
}

function abort(promotion: PromotionRecord, context: AdvanceContext): Advance {
  const { status } = promotion
  const message = status.abort === undefined ? 'the environment or its promotion was removed' : `aborted by ${status.abort.subject}`
  const next = enterPhase(status, 'Aborted', context.nowMs, { reason: 'Aborted', message })
  return hasLivingEffect(promotion, context.hasObserver)
    ? { do: 'withdraw', comment: `Promotion ${promotion.name} was aborted.`, status: next }
    : { do: 'write', status: next }
}

const isPullOpen = ({ effect }: PromotionStatus): boolean =>
  effect?.prNumber !== undefined && effect.prState !== 'merged' && effect.prState !== 'abandoned'

/** A pull request is known, or an attempt may have opened one that was not recorded. */
export const hasLivingEffect = (promotion: PromotionRecord, hasObserver: boolean): boolean =>
  hasObserver &&
  (isPullOpen(promotion.status) || phaseOf(promotion) === 'Running' || promotion.status.effect?.branch !== undefined) &&
  promotion.status.effect?.prState !== 'merged'

const endOf = (since: string | undefined, duration: string | undefined): number | null =>
  since === undefined || duration === undefined ? null : Date.parse(since) + durationMs(duration, '0s')
