// The walk over the environments of a run: the first environment that is not done decides the step. Pure.
import { isDeepStrictEqual } from 'node:util'
import type { Environment } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import { type PromotionPolicy, strategyKindOf } from '@brokkr/contract/pipelines/strategy.ts'
import { type PromotionRecord, phaseOf } from '../objects.ts'
import { advancePromotion } from './advance.ts'
import { buildPromotion } from './build-promotion.ts'
import type { DecideContext, Walk } from './decide.ts'
import { isOpen, newestOf } from './newest.ts'
import { hasLeft, isIndefinite, isSettledOn, type ObservedEnvironment, whyNotSettled } from './observed.ts'
import { promotionPolicyOf } from './policy.ts'
import { evaluateWindows } from './windows/evaluate-windows.ts'

interface Place {
  readonly environment: Environment
  readonly observed: ObservedEnvironment
  readonly index: number
}

const stop = (reason: string | null = null, message = '', wakeAtMs: number | null = null): Walk => ({
  step: { do: 'nothing' },
  pending: reason === null ? null : { reason, message },
  wakeAtMs,
})

/** Environments after the first, or those of the run's scope, in spec order. */
export function walkEnvironments(context: DecideContext, run: Run): Walk {
  for (const place of placesOf(context, run)) {
    const walk = visit(context, run, place)
    if (walk !== 'next') return walk
  }
  return stop()
}

/** Trigger Webhook: hooks recorded the promotions; those that are open go on, wherever they are. */
export const walkOpenPromotions = (context: DecideContext, run: Run): Walk =>
  joinWalks(listOpen(context, run).map((each) => advance(context, each)))

/**
 * Open promotions that the walk did not reach, because it stopped before them or their environment is not walked any more: what they began
 * goes on or ends. None of them begins its effect while an environment before it is not settled.
 */
export function walkUnreached(context: DecideContext, run: Run, walk: Walk): Walk {
  if (walk.step.do !== 'nothing') return walk
  const isHeldBack = (promotion: PromotionRecord, { step }: Walk) =>
    phaseOf(promotion) === 'Queued' && step.do === 'advance' && step.advance.do === 'attempt'
  const others = listOpen(context, run).map((promotion) => {
    const next = advance(context, promotion)
    return isHeldBack(promotion, next) ? stop() : next
  })
  return joinWalks([walk, ...others])
}

const listOpen = (context: DecideContext, run: Run): PromotionRecord[] =>
  context.promotions.filter((promotion) => promotion.spec.run === run.number && isOpen(promotion))

/** The first step, the first reason, the earliest time; the first walk says whether the run is over. */
function joinWalks(walks: readonly Walk[]): Walk {
  const pending = walks.find((walk) => walk.pending !== null)?.pending ?? null
  const acting = walks.find(({ step }) => step.do !== 'nothing')
  const wakes = walks.flatMap(({ wakeAtMs }) => wakeAtMs ?? [])
  const isOver = walks[0]?.isOver === true
  return { step: acting?.step ?? { do: 'nothing' }, pending, wakeAtMs: wakes.length === 0 ? null : Math.min(...wakes), isOver }
}

function placesOf(context: DecideContext, run: Run): Place[] {
  const scope = run.scope ?? []
  return context.spec.environments.flatMap((environment, index) => {
    const isWalked = scope.length > 0 ? scope.includes(environment.name) : index > 0
    const observed = context.observed[index]
    return isWalked && observed !== undefined && environment.targets.length > 0 ? [{ environment, observed, index }] : []
  })
}

function visit(context: DecideContext, run: Run, place: Place): Walk | 'next' {
  const { environment, observed } = place
  const newest = newestOf(context.promotions, run.number, environment.name)
  if (newest !== null && isOpen(newest)) return visitOpen(context, place, newest)
  if (isSettledOn(observed, run.revision)) return 'next'
  if (newest !== null) return visitEnded(context, newest, observed)
  return consider(context, run, place)
}

/** A Blocked promotion whose strategy was changed in the Pipeline is replaced by the next series. */
function visitOpen(context: DecideContext, place: Place, promotion: PromotionRecord): Walk {
  const policy = promotionPolicyOf(context.spec, place.environment)
  const isReplaced =
    phaseOf(promotion) === 'Blocked' &&
    !context.isSuspended &&
    policy !== null &&
    strategyKindOf(policy.strategy) !== null &&
    !isDeepStrictEqual(policy.strategy, promotion.spec.strategy)
  return isReplaced
    ? create(context, place, policy, { run: promotion.spec, series: promotion.spec.series + 1 })
    : advance(context, promotion)
}

function visitEnded(context: DecideContext, promotion: PromotionRecord, observed: ObservedEnvironment): Walk | 'next' {
  const phase = phaseOf(promotion)
  const { environment, revision } = promotion.spec
  if (phase !== 'Succeeded') {
    const message = promotion.status.message ?? `the promotion of ${revision} into ${environment} ended as ${phase}`
    return { ...stop(phase, message), isOver: true }
  }
  // A run promotes into an environment once: what was placed there later stays until the next run.
  if (context.policy.settle === 'Once') return 'next'
  // An unready or unreachable environment may settle again, so the run goes on; only another revision ends it.
  return { ...stop(...whyUnsettled(observed, revision)), isOver: hasLeft(observed, revision) }
}

/** Only another revision is a divergence. */
function whyUnsettled(observed: ObservedEnvironment, revision: string): [reason: string, message: string] {
  if (hasLeft(observed, revision)) return ['Diverged', `environment ${observed.name} left ${revision} after its promotion succeeded`]
  if (isIndefinite(observed)) return ['TargetNotReadable', whyIndefinite(observed)]
  return ['EnvironmentNotReady', whyNotSettled(observed)]
}

function whyIndefinite({ name, targets }: ObservedEnvironment): string {
  const error = targets.find(({ presence }) => presence === 'indefinite')?.error
  return `environment ${name}: ${error ?? 'a target cannot be read'}`
}

function consider(context: DecideContext, run: Run, place: Place): Walk {
  const { environment, observed } = place
  const policy = promotionPolicyOf(context.spec, environment)
  if (policy === null) return stop()
  if (strategyKindOf(policy.strategy) === null)
    return stop('NoStrategy', `environment ${environment.name} has a promotion without a strategy`)
  if (isIndefinite(observed)) return stop('TargetNotReadable', whyIndefinite(observed))
  if (!isPredecessorSettled(context, run, place)) return stop()
  if (context.isSuspended) return stop('Suspended', `${run.revision} waits: the pipeline is suspended`)
  const settleUntilMs = rollingUntil(context, run, observed)
  if (settleUntilMs !== null)
    return stop('EnvironmentNotReady', `environment ${environment.name} is still changing to ${run.revision}`, settleUntilMs)
  return create(context, place, policy, { run: { run: run.number, revision: run.revision, cause: run.cause }, series: 1 })
}

/** Runs that a user started are not compared with the environment before. */
function isPredecessorSettled(context: DecideContext, run: Run, place: Place): boolean {
  if (run.cause.kind === 'manual' || run.cause.kind === 'rollback') return true
  const before = context.spec.environments.slice(0, place.index)
  const index = before.findLastIndex(({ targets }) => targets.length > 0)
  const observed = context.observed[index]
  if (observed === undefined) return false
  if (isSettledOn(observed, run.revision)) return true
  if (context.policy.settle !== 'Once') return false
  const newest = newestOf(context.promotions, run.number, observed.name)
  return index === 0 || (newest !== null && phaseOf(newest) === 'Succeeded')
}

/** Some targets reached the revision a moment ago: a change that is still rolling out must not be ordered again. */
function rollingUntil(context: DecideContext, run: Run, { targets }: ObservedEnvironment): number | null {
  const changes = targets
    .filter(({ revision }) => revision === run.revision)
    .flatMap(({ revisionChangedAtMs }) => revisionChangedAtMs ?? [])
  const untilMs = Math.max(...changes) + context.settings.promotionSettleMs
  return untilMs > context.nowMs ? untilMs : null
}

function create(
  context: DecideContext,
  place: Place,
  policy: PromotionPolicy,
  of: { run: Pick<PromotionRecord['spec'], 'run' | 'revision' | 'cause'>; series: number },
): Walk {
  const promotion = buildPromotion(context, { ...place, policy, ...of })
  return { step: { do: 'create', ...promotion }, pending: null, wakeAtMs: null }
}

function advance(context: DecideContext, promotion: PromotionRecord): Walk {
  const index = context.spec.environments.findIndex(({ name }) => name === promotion.spec.environment)
  const environment = context.spec.environments[index]
  const windows = [...context.settings.windows, ...(environment?.windows ?? [])]
  const next = advancePromotion(promotion, {
    nowMs: context.nowMs,
    environment: environment === undefined ? null : (context.observed[index] ?? null),
    policy: environment === undefined ? null : promotionPolicyOf(context.spec, environment),
    trigger: context.policy.trigger,
    isSuspended: context.isSuspended,
    windows: evaluateWindows(windows, context.nowMs),
    hasObserver: context.hasObserver(promotion.spec.strategy),
    effectObservedAtMs: context.effectObservedAtMs(promotion),
    isReadRequested: context.isReadRequested(promotion),
    secretVersion: context.secretVersion(promotion),
    settings: context.settings,
  })
  if (next.do === 'wait') return { step: { do: 'nothing' }, pending: next.pending, wakeAtMs: next.wakeAtMs }
  // A read that finds no change writes nothing, so no event leads to the next read.
  const isRead = next.do === 'observe-effect' || next.do === 'observe-block'
  const wakeAtMs = isRead ? context.nowMs + context.settings.effectPollMs : null
  const pending = next.do === 'observe-block' ? next.pending : null
  return { step: { do: 'advance', promotion, advance: next }, pending, wakeAtMs }
}
