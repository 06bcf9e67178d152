// The effective policy of a Pipeline: what the spec says, with the defaults of the program. Pure.
import { durationMs } from '@brokkr/contract/pipelines/fields.ts'
import type { Environment, PipelineSpec, Window } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Approval, PromotionPolicy } from '@brokkr/contract/pipelines/strategy.ts'

export interface DecideSettings {
  /** Trigger of Pipelines that name none. */
  readonly defaultTrigger: 'Watch' | 'Webhook'
  /** Attempts of Pipelines that name none; 0 still makes one. */
  readonly attempts: number
  readonly retryMaxMs: number
  /** How long a target that reached the revision by itself delays a promotion of the others. */
  readonly promotionSettleMs: number
  /** Pause between two reads of an open pull request. */
  readonly effectPollMs: number
  /** Longest pause between two looks at what blocks a promotion; it grows with the time that the block lasts. */
  readonly blockPollMsMax: number
  /** A Blocked promotion is tried again after this time. */
  readonly blockedRetryMs: number
  /** Windows of the configuration file, which hold for every Pipeline. */
  readonly windows: readonly Window[]
}

export interface EffectivePolicy {
  readonly trigger: 'Watch' | 'Webhook'
  readonly settle: 'Now' | 'Once'
  readonly soak: string
  readonly supersede: 'Close' | 'Update' | 'Queue'
  readonly hotfix: 'Overwrite' | 'Protect'
  readonly hold: boolean
  readonly attempts: number
  readonly attemptAge: string
  readonly deadline: string | undefined
  readonly history: number
}

export function effectivePolicy(spec: PipelineSpec, settings: Pick<DecideSettings, 'defaultTrigger' | 'attempts'>): EffectivePolicy {
  const policy = spec.policy ?? {}
  return {
    trigger: policy.trigger ?? settings.defaultTrigger,
    settle: policy.settle ?? 'Now',
    soak: policy.soak ?? '0s',
    supersede: policy.supersede ?? 'Close',
    hotfix: policy.hotfix ?? 'Overwrite',
    hold: policy.hold ?? false,
    attempts: Math.max(1, policy.attempts ?? settings.attempts),
    attemptAge: policy.attemptAge ?? '24h',
    deadline: policy.deadline,
    history: policy.history ?? 20,
  }
}

/** The environment's promotion replaces the pipeline's as a whole; null: nothing is promoted into it. */
export const promotionPolicyOf = (spec: PipelineSpec, environment: Environment): PromotionPolicy | null =>
  environment.promotion ?? spec.promotion ?? null

/**
 * The approval that a promotion needs; undefined: none. `manual` asks for it, and so does an `approval` object: a reader who sets approvers
 * expects that they are asked. A protected hotfix asks for one in any case.
 */
export function requiredApproval(input: {
  readonly environment: Environment
  readonly policy: PromotionPolicy
  readonly isHotfixProtected: boolean
}): Approval | undefined {
  const { environment, policy, isHotfixProtected } = input
  if (environment.approval !== undefined) return environment.approval
  return policy.manual === true || isHotfixProtected ? { minApprovals: 1 } : undefined
}

/** True once `duration` has passed since `since`. */
export const isOver = (since: string | undefined, duration: string | undefined, nowMs: number): boolean =>
  since !== undefined && duration !== undefined && nowMs >= Date.parse(since) + durationMs(duration, '0s')
