// One attempt of a promotion: direct read, W2, the strategy with its effects, and what it led to (W3, W4). Also reading an effect again
// (E3, W5) and ending it. The order of writes makes every crash repeatable: a record precedes each effect.
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Effect, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { hasReason, type Kube, KubeError } from '@brokkr/kube'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { redactText } from '@brokkr/runtime/logging/redact-text.ts'
import { clusterIdOf } from '../clusters/used-set.ts'
import { endBlock } from '../decide/advance.ts'
import { isOpen } from '../decide/newest.ts'
import { afterFailure, beginAttempt, endAttempt, enterPhase, type Failure, mergeEffect } from '../decide/promotion-status.ts'
import { isWithdrawalOver, noteWithdrawalFailure, withdrawalPauseMs } from '../decide/withdrawal.ts'
import { type PipelineRecord, type PromotionRecord, phaseOf } from '../objects.ts'
import { stackNameOf } from '../stacks/stack-access.ts'
import type { AttemptInput, AttemptResult, EffectObserver, Strategy, StrategyTarget } from '../strategies/strategy.ts'
import { readSecret } from './read-secret.ts'
import type { RecordWriter } from './record-writer.ts'

export interface AttemptDeps {
  readonly kube: Kube
  readonly writer: RecordWriter
  readonly clock: Clock
  readonly strategies: readonly Strategy[]
  readonly retry: { readonly baseMs: number; readonly maxMs: number }
}

export interface AttemptAt {
  readonly pipeline: PipelineRecord
  readonly spec: PipelineSpec
  readonly promotion: PromotionRecord
}

/** The record after the attempt; null: another writer was first, and nothing was done. */
export async function runAttempt(deps: AttemptDeps, at: AttemptAt, signal: AbortSignal): Promise<PromotionRecord | null> {
  const fresh = await readFresh(deps, at, signal)
  if (fresh === null || !['Queued', 'Running'].includes(phaseOf(fresh))) return null
  const running = new CurrentRecord(
    deps,
    await deps.writer.writePromotionStatus(fresh, beginAttempt(fresh.status, deps.clock.now()), signal),
  )
  const result = await callStrategy(deps, { ...at, promotion: running.record }, running, signal)
  await running.change((status) => afterAttempt(deps, running.record, status, result), signal)
  return running.record
}

/**
 * W2 reads Pipeline and Promotion directly: a cache may be older than a newer run, or than a pause that the record asks for. A decision on
 * an older record is dropped; the event of the newer one leads to the next.
 */
async function readFresh(deps: AttemptDeps, at: AttemptAt, signal: AbortSignal): Promise<PromotionRecord | null> {
  const [pipeline, promotion] = await Promise.all([
    deps.writer.readPipeline(at.pipeline, signal),
    deps.writer.readPromotion(at.promotion, signal),
  ])
  if (pipeline === null || pipeline.uid !== at.pipeline.uid || promotion?.resourceVersion !== at.promotion.resourceVersion) return null
  const isSuspended = pipeline.spec.ok && pipeline.spec.spec.suspend === true
  return isOutdated(pipeline, promotion) || isSuspended || promotion.status.abort !== undefined ? null : promotion
}

const isOutdated = (pipeline: PipelineRecord, promotion: PromotionRecord): boolean =>
  (pipeline.status.run?.number ?? 0) > promotion.spec.run

async function callStrategy(deps: AttemptDeps, at: AttemptAt, running: CurrentRecord, signal: AbortSignal): Promise<AttemptResult> {
  const strategy = deps.strategies.find((each) => each.handles(at.promotion.spec.strategy))
  if (strategy === undefined)
    return {
      outcome: 'failed',
      class: 'configuration',
      reason: 'StrategyNotSupported',
      message: 'this controller has no strategy of that kind',
    }
  try {
    return await strategy.run(toInput(deps, at, running, signal))
  } catch (error) {
    // At shutdown and after a lost Lease nothing is written: the next leader resumes the attempt.
    signal.throwIfAborted()
    if (hasReason(error, 'Conflict')) throw error
    return { outcome: 'failed', class: 'transient', reason: 'AttemptFailed', message: redactText(errorText(error)) }
  }
}

function afterAttempt(deps: AttemptDeps, promotion: PromotionRecord, status: PromotionStatus, result: AttemptResult): PromotionStatus {
  const nowMs = deps.clock.now()
  if (result.outcome === 'stopped') return endAttempt(status, nowMs, { outcome: 'stopped' })
  if (result.outcome === 'failed') return afterFailure(status, promotion.spec, toFailure(result), { nowMs, delayMs: delayOf(deps, status) })
  const ended = mergeEffect(endAttempt(status, nowMs, { outcome: 'succeeded' }), result.effect)
  if (result.outcome === 'applied') return enterPhase(ended, 'Applied', nowMs)
  return enterPhase(ended, 'Abandoned', nowMs, { reason: 'Abandoned', message: 'the pull request was closed without a merge' })
}

const toFailure = (result: Extract<AttemptResult, { outcome: 'failed' }>): Failure => ({ ...result, message: redactText(result.message) })

const delayOf = ({ retry }: AttemptDeps, status: PromotionStatus): number =>
  backoffDelayMs({ baseMs: retry.baseMs, maxMs: retry.maxMs, jitter: 'full' }, (status.attemptCount ?? 1) - 1)

/** E3, W5. A failure is not an attempt: the effect is read again at the next poll. */
export async function observeEffect(deps: AttemptDeps, at: AttemptAt, signal: AbortSignal): Promise<PromotionRecord | null> {
  const strategy = deps.strategies.find((each) => each.handles(at.promotion.spec.strategy))
  if (strategy?.observer === undefined) return null
  const current = new CurrentRecord(deps, at.promotion)
  const result = await strategy.observer.observe(toInput(deps, at, current, signal))
  if (result.outcome === 'failed') return null
  await current.change((status) => mergeEffect(status, result.effect), signal)
  return current.record
}

/** Ends the block when the base branch changed since. A failure changes nothing: it is looked at again at the next poll. */
export async function observeBlock(deps: AttemptDeps, at: AttemptAt, signal: AbortSignal): Promise<PromotionRecord | null> {
  const strategy = deps.strategies.find((each) => each.handles(at.promotion.spec.strategy))
  const current = new CurrentRecord(deps, at.promotion)
  const result = await strategy?.observer?.readBase(toInput(deps, at, current, signal))
  if (result?.outcome !== 'read' || result.baseSha === at.promotion.status.blockedOn?.baseSha) return null
  await current.change((status) => endBlock(status, deps.clock.now()), signal)
  return current.record
}

/** A step that failed and is repeated after a pause. The Pipeline shows the reason meanwhile. */
export class StepFailed extends Error {
  override readonly name = 'StepFailed'
  readonly reason: string
  /** A rate limit: not before this time. */
  readonly retryAfterMs: number | undefined

  constructor(reason: string, message: string, retryAfterMs?: number) {
    super(message)
    this.reason = reason
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * Ends an open effect, then writes `status`. Throws StepFailed when a repetition can help. A failure that only a person can correct, or that
 * lasts, ends the promotion all the same, with a message: an older promotion must not stop the newer ones.
 */
export async function withdrawEffect(
  deps: AttemptDeps,
  at: AttemptAt,
  end: { comment: string; status: PromotionStatus },
  signal: AbortSignal,
): Promise<PromotionRecord> {
  const { name, spec, status: before } = at.promotion
  await requireCurrent(deps, at.promotion, signal)
  const pauseMs = withdrawalPauseMs(before, deps.clock.now())
  if (pauseMs > 0) throw new StepFailed('RateLimited', `${name} is not withdrawn before ${before.nextAttemptAt}: rate limit`, pauseMs)
  const current = new CurrentRecord(deps, at.promotion)
  const result = await callWithdraw(deps, at, { current, comment: end.comment }, signal)
  const nowMs = deps.clock.now()
  if (result?.outcome === 'failed' && !isWithdrawalOver(current.record.status, spec, result, nowMs)) {
    await current.change((status) => noteWithdrawalFailure(status, result, nowMs), signal)
    const waitMs = withdrawalPauseMs(current.record.status, nowMs) || undefined
    throw new StepFailed(result.reason, `${name} is not withdrawn yet: ${redactText(result.message)}`, waitMs)
  }
  const { nextAttemptAt: _due, ...ended } = end.status
  const status = mergeEffect(ended, { ...current.record.status.effect, ...(result?.outcome === 'withdrawn' ? result.effect : {}) })
  const problem = result?.outcome === 'failed' ? `not withdrawn: ${result.reason}: ${redactText(result.message)}` : null
  const message = [end.status.message, problem].filter(Boolean).join('; ').slice(0, MESSAGE_MAX)
  return deps.writer.writePromotionStatus(current.record, message === '' ? status : { ...status, message }, signal)
}

/** An older record may lack the pause that a rate limit asks for, and the decision that it led to. Throws Conflict, so that it is made again. */
async function requireCurrent({ writer }: AttemptDeps, promotion: PromotionRecord, signal: AbortSignal): Promise<void> {
  const fresh = await writer.readPromotion(promotion, signal)
  if (fresh?.resourceVersion !== promotion.resourceVersion)
    throw new KubeError(`Promotion ${promotion.key} changed since it was read`, { reason: 'Conflict' })
}

/** Undefined: the strategy has no effect that goes on living. */
async function callWithdraw(
  deps: AttemptDeps,
  at: AttemptAt,
  { current, comment }: { current: CurrentRecord; comment: string },
  signal: AbortSignal,
): Promise<Awaited<ReturnType<EffectObserver['withdraw']>> | undefined> {
  const strategy = deps.strategies.find((each) => each.handles(at.promotion.spec.strategy))
  try {
    return await strategy?.observer?.withdraw(toInput(deps, at, current, signal), comment)
  } catch (error) {
    signal.throwIfAborted()
    if (hasReason(error, 'Conflict')) throw error
    return { outcome: 'failed', class: 'transient', reason: 'WithdrawalFailed', message: redactText(errorText(error)) }
  }
}

const MESSAGE_MAX = 20_000

/** The change that an attempt would make now; null: the strategy has none to show. */
export async function previewAttempt(deps: AttemptDeps, at: AttemptAt, signal: AbortSignal): Promise<string | null> {
  const strategy = deps.strategies.find((each) => each.handles(at.promotion.spec.strategy))
  const result = await strategy?.preview?.(toInput(deps, at, new CurrentRecord(deps, at.promotion), signal))
  if (result === undefined) return null
  return result.outcome === 'previewed' ? result.diff : `${result.reason}: ${redactText(result.message)}`
}

/** Removes what a promotion that ended left behind. False: it is still in use, or could not be removed now. */
export async function cleanEffect(deps: AttemptDeps, at: AttemptAt, signal: AbortSignal): Promise<boolean> {
  const strategy = deps.strategies.find((each) => each.handles(at.promotion.spec.strategy))
  const result = await strategy?.observer?.clean(toInput(deps, at, new CurrentRecord(deps, at.promotion), signal))
  return result === undefined || result.outcome === 'cleaned'
}

/** The record as it was last written by this attempt. Decisions and requests of users may be written in between. */
class CurrentRecord {
  readonly #deps: AttemptDeps
  record: PromotionRecord

  constructor(deps: AttemptDeps, record: PromotionRecord) {
    this.#deps = deps
    this.record = record
  }

  /** CAS; after a conflict the change is made on the fresh record, as long as its phase and attempt are still ours. */
  async change(change: (status: PromotionStatus) => PromotionStatus, signal: AbortSignal): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        this.record = await this.#deps.writer.writePromotionStatus(this.record, change(this.record.status), signal)
        return
      } catch (error) {
        const fresh =
          hasReason(error, 'Conflict') && tries < CONFLICTS_MAX ? await this.#deps.writer.readPromotion(this.record, signal) : null
        if (fresh === null || !isSameAttempt(fresh, this.record)) throw error
        this.record = fresh
      }
    }
  }
}

const CONFLICTS_MAX = 5

/** Two processes without a Lease may make the same attempt: its effects are found by key, and the first to end it writes the outcome. */
const isSameAttempt = (a: PromotionRecord, b: PromotionRecord): boolean =>
  a.uid === b.uid && phaseOf(a) === phaseOf(b) && a.status.attemptCount === b.status.attemptCount

const listCommitsOf = ({ status: { effect } }: PromotionRecord): string[] => (effect?.commitSha === undefined ? [] : [effect.commitSha])

function toInput(deps: AttemptDeps, at: AttemptAt, current: CurrentRecord, signal: AbortSignal): AttemptInput {
  const { pipeline, spec, promotion } = at
  const index = spec.environments.findIndex(({ name }) => name === promotion.spec.environment)
  const targetsOf = (environments: typeof spec.environments): StrategyTarget[] =>
    environments.flatMap(({ targets }) =>
      targets.map((target) => ({
        namespace: target.namespace || pipeline.namespace,
        clusterName: target.clusterRef === undefined ? null : clusterIdOf(target.clusterRef, pipeline.namespace),
        stack: stackNameOf(pipeline, spec, target),
      })),
    )
  return {
    promotion,
    pipeline: { namespace: pipeline.namespace, name: pipeline.name, uid: pipeline.uid },
    targets: targetsOf(spec.environments.slice(index, index + 1)),
    earlierTargets: targetsOf(spec.environments.slice(0, Math.max(0, index))),
    listOpenKeys: async () => new Set((await deps.writer.listPromotions(pipeline, signal)).filter(isOpen).map((each) => each.spec.key)),
    listCommits: async () => new Set((await deps.writer.listPromotions(pipeline, signal)).flatMap(listCommitsOf)),
    readSecret: (name) => readSecret(deps.kube, { namespace: pipeline.namespace, name }, signal),
    async saveProgress(effect: Effect) {
      await current.change((status) => mergeEffect(status, effect), signal)
      const fresh = await deps.writer.readPipeline(pipeline, signal)
      return fresh === null || isOutdated(fresh, promotion) || current.record.status.abort !== undefined ? 'stop' : 'continue'
    },
    signal,
  }
}
