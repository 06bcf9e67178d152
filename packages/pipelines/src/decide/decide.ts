// The decision of one pass: from Pipeline, observation and promotions to at most one step. Level-triggered: events are never input. Pure.
import { HOLD_ANNOTATION } from '@brokkr/contract/pipelines/fields.ts'
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import type { PromotionSpec, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { timeText } from '@brokkr/kube'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import type { Advance, Pending } from './advance.ts'
import { findExpiredRecord } from './history.ts'
import { hasNotBegun, isOpen } from './newest.ts'
import { type ObservedEnvironment, settledRevision, whyNotSettled } from './observed.ts'
import { type DecideSettings, type EffectivePolicy, effectivePolicy } from './policy.ts'
import { findSuperseded } from './supersede.ts'
import { walkEnvironments, walkOpenPromotions, walkUnreached } from './walk.ts'

export interface DecideInput {
  readonly pipeline: PipelineRecord
  readonly spec: PipelineSpec
  /** One entry per environment of the spec, in its order. */
  readonly observed: readonly ObservedEnvironment[]
  /** All promotions of this Pipeline's UID. */
  readonly promotions: readonly PromotionRecord[]
  readonly settings: DecideSettings
  readonly nowMs: number
  /** Whether a strategy's effect goes on living after it was made. */
  hasObserver(strategy: PromotionSpec['strategy']): boolean
  /** When this process last read the effect of a promotion; null: not yet. */
  effectObservedAtMs(promotion: PromotionRecord): number | null
  /** Whether a user or a forge asked for a pass since that read. */
  isReadRequested(promotion: PromotionRecord): boolean
  /** Version of the Secret that a promotion's strategy names; undefined: not known. */
  secretVersion(promotion: PromotionRecord): string | undefined
}

export type Step =
  | { readonly do: 'nothing' }
  /** W0 */
  | { readonly do: 'start-run'; readonly run: Run }
  /** W1 */
  | { readonly do: 'create'; readonly name: string; readonly spec: PromotionSpec }
  | { readonly do: 'advance'; readonly promotion: PromotionRecord; readonly advance: Exclude<Advance, { do: 'wait' }> }
  | { readonly do: 'supersede'; readonly promotion: PromotionRecord; readonly status: PromotionStatus; readonly withdraw: string | null }
  | { readonly do: 'delete'; readonly promotion: PromotionRecord }

export interface Plan {
  readonly step: Step
  /** What holds the run back; null: nothing. */
  readonly pending: Pending | null
  /** When to look again although nothing changed. */
  readonly wakeAtMs: number | null
}

export interface DecideContext extends DecideInput {
  readonly policy: EffectivePolicy
  readonly isSuspended: boolean
}

/** What a walk over the environments of a run found. */
export interface Walk {
  readonly step: Step
  readonly pending: Pending | null
  readonly wakeAtMs: number | null
  /** An environment ended its promotion and is not settled: no effect of this run begins in the environments after it. */
  readonly isOver?: boolean
}

export const noStep: Step = { do: 'nothing' }

export function decide(input: DecideInput): Plan {
  const { pipeline, spec } = input
  if (pipeline.isDeleting) return { step: noStep, pending: null, wakeAtMs: null }
  const context: DecideContext = { ...input, policy: effectivePolicy(spec, input.settings), isSuspended: spec.suspend === true }
  const { run } = pipeline.status
  const walk: Walk = run === undefined ? { step: noStep, pending: null, wakeAtMs: null } : walkRun(context, run)
  const start = context.policy.trigger === 'Watch' ? considerRun(context, walk) : null
  if (start?.step !== undefined) return { step: start.step, pending: walk.pending, wakeAtMs: null }
  const step = findSuperseded(context, run) ?? walk.step
  const isIdle = step.do === 'nothing'
  const expired = isIdle && !context.isSuspended ? findExpiredRecord(context) : null
  return { step: expired ?? step, pending: walk.pending ?? start?.pending ?? null, wakeAtMs: walk.wakeAtMs }
}

const walkRun = (context: DecideContext, run: Run): Walk =>
  context.policy.trigger === 'Watch' ? walkUnreached(context, run, walkEnvironments(context, run)) : walkOpenPromotions(context, run)

/** Whether the first environment starts a run: it is settled on another revision than the run's, and nothing forbids it. */
function considerRun(context: DecideContext, walk: Walk): { step?: Step; pending: Pending | null } {
  const { run } = context.pipeline.status
  const [first] = context.observed
  const revision = first === undefined ? null : settledRevision(first)
  if (first === undefined || revision === null)
    return { pending: { reason: 'EnvironmentNotReady', message: first === undefined ? 'there is no environment' : whyNotSettled(first) } }
  if (revision === run?.revision || revision === run?.firstRevision) return { pending: null }
  if (context.isSuspended) return { pending: { reason: 'Suspended', message: `${revision} waits: the pipeline is suspended` } }
  if (isHeld(context)) return { pending: { reason: 'Held', message: `${revision} waits: the pipeline is held` } }
  if (context.policy.supersede === 'Queue' && run !== undefined && !hasEnded(context, run, walk)) return { pending: null }
  const number = nextRunNumber(run, context.promotions)
  return {
    step: { do: 'start-run', run: { number, revision, startedAt: timeText(context.nowMs), cause: { kind: 'detected' } } },
    pending: null,
  }
}

export function isHeld({ pipeline, policy }: Pick<DecideContext, 'pipeline' | 'policy'>): boolean {
  const annotation = pipeline.annotations[HOLD_ANNOTATION]
  return policy.hold || (annotation !== undefined && annotation !== '' && annotation !== 'false')
}

/**
 * A run has ended when no promotion of it is open and none would be made now. Behind an environment whose promotion failed, or that left the
 * revision, a promotion whose effect has not begun never begins it: it does not keep the run open.
 */
function hasEnded(context: DecideContext, run: Run, walk: Walk): boolean {
  const open = context.promotions.filter((promotion) => promotion.spec.run === run.number && isOpen(promotion))
  if (walk.isOver === true) return open.every(hasNotBegun)
  return walk.step.do !== 'create' && walk.wakeAtMs === null && open.length === 0
}

/** One more than the highest number of the status and of any promotion: numbers are never used again, also after a restore. */
export const nextRunNumber = (run: Run | undefined, promotions: readonly PromotionRecord[]): number =>
  Math.max(run?.number ?? 0, ...promotions.map(({ spec }) => spec.run)) + 1
