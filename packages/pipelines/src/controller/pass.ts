// One pass over one Pipeline: observe, decide, at most one effect or record write, then the status. Only the leader runs passes.
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import { hasReason, type Outcome, timeText } from '@brokkr/kube'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { decide, nextRunNumber, type Plan, type Step } from '../decide/decide.ts'
import { isOpen } from '../decide/newest.ts'
import type { ObservedEnvironment } from '../decide/observed.ts'
import { buildPipelineStatus, compareStatus } from '../decide/pipeline-status.ts'
import { type DecideSettings, effectivePolicy } from '../decide/policy.ts'
import type { Explanation } from '../hooks/deps.ts'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import {
  type AttemptAt,
  type AttemptDeps,
  observeBlock,
  observeEffect,
  previewAttempt,
  runAttempt,
  StepFailed,
  withdrawEffect,
} from './attempt.ts'
import type { EffectReads } from './effect-reads.ts'
import { type EffectSlots, hasEffect } from './effect-slots.ts'
import type { PipelineEvents } from './events.ts'
import type { Observer } from './observe.ts'
import type { PipelineMetrics } from './pipeline-metrics.ts'
import { secretNameOf } from './read-secret.ts'
import type { Records } from './records.ts'

export interface PassDeps extends AttemptDeps {
  readonly records: Pick<Records, 'getPipeline' | 'listPromotions'>
  readonly observer: Observer
  readonly events: PipelineEvents
  readonly metrics: PipelineMetrics
  readonly settings: DecideSettings
  readonly log: Log
  readonly effectReads: EffectReads
  readonly effectSlots: EffectSlots
  readonly secretVersion: (secretKey: string) => string | undefined
}

/** Longest time without a look, whatever a timer says. */
const WAKE_MS_MAX = 10 * 60_000
/** A released slot wakes the Pipeline earlier, unless the slot went to one that did not need it any longer. */
const NO_SLOT_MS = 5_000
const noRelease = (): void => undefined

export async function runPass(deps: PassDeps, key: string, signal: AbortSignal): Promise<Outcome> {
  const pipeline = deps.records.getPipeline(key)
  if (pipeline === undefined || pipeline.isDeleting) {
    deps.observer.forget(key)
    return 'done'
  }
  if (!pipeline.spec.ok) {
    await writeStatus(deps, { pipeline, observed: [], run: pipeline.status.run, plan: idle, trigger: 'Watch' }, signal)
    return 'done'
  }
  const { spec } = pipeline.spec
  const { trigger } = effectivePolicy(spec, deps.settings)
  const observed = deps.observer.observe(pipeline, spec, trigger)
  const plan = decidePass(deps, { pipeline, spec, observed })
  const at = { pipeline, observed, plan, trigger }
  const release = hasEffect(plan.step) ? deps.effectSlots.take(key) : noRelease
  if (release === null) {
    await writeStatus(deps, { ...at, run: pipeline.status.run }, signal)
    return { afterMs: NO_SLOT_MS }
  }
  const run = await execute(deps, { pipeline, spec }, plan.step, signal)
    .catch((error: unknown) => failStep(deps, at, error, signal))
    .finally(release)
  await writeStatus(deps, { ...at, run: run ?? pipeline.status.run }, signal)
  return plan.wakeAtMs === null ? 'done' : { afterMs: Math.min(WAKE_MS_MAX, Math.max(0, plan.wakeAtMs - deps.clock.now())) }
}

/** The status shows what was seen and why the step is repeated; then the pass fails. */
async function failStep(deps: PassDeps, at: Omit<StatusAt, 'run'>, error: unknown, signal: AbortSignal): Promise<never> {
  if (error instanceof StepFailed) {
    const plan = { ...at.plan, pending: { reason: error.reason, message: error.message } }
    await writeStatus(deps, { ...at, plan, run: at.pipeline.status.run }, signal)
  }
  throw error
}

/** Observes and decides without a write. A standby has the same caches. */
export function explainPass(deps: PassDeps, key: string): Explanation | null {
  const pipeline = deps.records.getPipeline(key)
  if (pipeline === undefined || !pipeline.spec.ok) return null
  const { spec } = pipeline.spec
  const observed = deps.observer.observe(pipeline, spec, effectivePolicy(spec, deps.settings).trigger)
  return { pipeline, observed, plan: decidePass(deps, { pipeline, spec, observed }) }
}

/** The change that the promotion of the next step would make; null: there is none. */
export async function previewPass(deps: PassDeps, key: string, signal: AbortSignal): Promise<string | null> {
  const pipeline = deps.records.getPipeline(key)
  const step = explainPass(deps, key)?.plan.step
  if (pipeline === undefined || !pipeline.spec.ok || step === undefined) return null
  const open = deps.records.listPromotions(pipeline.uid).findLast((each) => isOpen(each))
  const planned = step.do === 'create' ? toPlanned(pipeline, step, deps.clock.now()) : (open ?? null)
  return planned === null ? null : previewAttempt(deps, { pipeline, spec: pipeline.spec.spec, promotion: planned }, signal)
}

/** The record as it would be created. */
function toPlanned(pipeline: PipelineRecord, { name, spec }: Extract<Step, { do: 'create' }>, nowMs: number): PromotionRecord {
  const stored = { ...pipeline, name, key: `${pipeline.namespace}/${name}`, uid: '', createdAt: timeText(nowMs), annotations: {} }
  return { ...stored, spec, status: {}, storedStatus: {} }
}

const idle: Plan = { step: { do: 'nothing' }, pending: null, wakeAtMs: null }

function decidePass(deps: PassDeps, at: { pipeline: PipelineRecord; spec: PipelineSpec; observed: ObservedEnvironment[] }): Plan {
  return decide({
    ...at,
    promotions: deps.records.listPromotions(at.pipeline.uid),
    settings: deps.settings,
    nowMs: deps.clock.now(),
    hasObserver: (strategy) => deps.strategies.find((each) => each.handles(strategy))?.observer !== undefined,
    effectObservedAtMs: ({ uid }) => deps.effectReads.dueBaseMs(uid, at.pipeline, deps.settings.effectPollMs),
    isReadRequested: ({ uid }) => deps.effectReads.isRequested(uid, at.pipeline),
    secretVersion: (promotion) => {
      const name = secretNameOf(promotion)
      return name === null ? undefined : deps.secretVersion(`${promotion.namespace}/${name}`)
    },
  })
}

/** Executes the step. A run that it starts is returned: W0 is part of the status patch. */
async function execute(
  deps: PassDeps,
  at: { pipeline: PipelineRecord; spec: PipelineSpec },
  step: Step,
  signal: AbortSignal,
): Promise<Run | null> {
  if (step.do === 'start-run') return startRun(deps, at.pipeline, step.run, signal)
  if (step.do === 'create') return create(deps, at.pipeline, step, signal)
  if (step.do === 'supersede') await supersede(deps, at, step, signal)
  if (step.do === 'delete') await deps.writer.deletePromotion(step.promotion, signal)
  if (step.do === 'advance') await advance(deps, { ...at, promotion: step.promotion }, step.advance, signal)
  return null
}

async function create(
  deps: PassDeps,
  pipeline: PipelineRecord,
  step: Extract<Step, { do: 'create' }>,
  signal: AbortSignal,
): Promise<Run | null> {
  const { promotion } = await deps.writer.createPromotion(pipeline, step, signal)
  const { run } = pipeline.status
  // A record of another revision under this number is from before a restore: the run takes the next number.
  if (promotion === null || promotion.spec.revision === step.spec.revision || run === undefined) return null
  return startRun(deps, pipeline, { ...run, startedAt: timeText(deps.clock.now()) }, signal)
}

async function supersede(
  deps: PassDeps,
  at: { pipeline: PipelineRecord; spec: PipelineSpec },
  { promotion, status, withdraw }: Extract<Step, { do: 'supersede' }>,
  signal: AbortSignal,
): Promise<void> {
  const written =
    withdraw === null
      ? await deps.writer.writePromotionStatus(promotion, status, signal)
      : await withdrawEffect(deps, { ...at, promotion }, { comment: withdraw, status }, signal)
  report(deps, at.pipeline, written, promotion)
}

async function startRun(deps: PassDeps, pipeline: PipelineRecord, run: Run, signal: AbortSignal): Promise<Run> {
  const promotions = await deps.writer.listPromotions(pipeline, signal)
  return { ...run, number: nextRunNumber(pipeline.status.run, promotions) }
}

async function advance(
  deps: PassDeps,
  at: { pipeline: PipelineRecord; spec: PipelineSpec; promotion: PromotionRecord },
  next: Extract<Step, { do: 'advance' }>['advance'],
  signal: AbortSignal,
): Promise<void> {
  const written = await executeAdvance(deps, at, next, signal)
  if (written !== null) report(deps, at.pipeline, written, at.promotion)
}

/** W7 and metrics, after a status was written. */
function report(deps: PassDeps, pipeline: PipelineRecord, written: PromotionRecord, before: PromotionRecord): void {
  deps.events.phaseEntered(pipeline, written, before.status)
  deps.metrics.statusWritten(pipeline, written, before.status, deps.clock.now())
}

async function executeAdvance(
  deps: PassDeps,
  at: { pipeline: PipelineRecord; spec: PipelineSpec; promotion: PromotionRecord },
  next: Extract<Step, { do: 'advance' }>['advance'],
  signal: AbortSignal,
): Promise<PromotionRecord | null> {
  if (next.do === 'write') return deps.writer.writePromotionStatus(at.promotion, next.status, signal)
  if (next.do === 'attempt') return attempt(deps, at, signal)
  if (next.do === 'withdraw') return withdrawEffect(deps, at, next, signal)
  deps.effectReads.record(at.promotion.uid, at.pipeline)
  return next.do === 'observe-block' ? observeBlock(deps, at, signal) : observeEffect(deps, at, signal)
}

/** An attempt that was blocked has read the base: the next look is due an interval later, or on request. */
async function attempt(deps: PassDeps, at: AttemptAt, signal: AbortSignal): Promise<PromotionRecord | null> {
  const written = await runAttempt(deps, at, signal)
  if (written?.status.phase === 'Blocked') deps.effectReads.record(at.promotion.uid, at.pipeline)
  return written
}

interface StatusAt {
  readonly pipeline: PipelineRecord
  readonly observed: readonly ObservedEnvironment[]
  readonly run: Run | undefined
  readonly plan: Plan
  readonly trigger: 'Watch' | 'Webhook'
}

async function writeStatus(deps: PassDeps, at: StatusAt, signal: AbortSignal): Promise<void> {
  const { pipeline, observed, run, plan, trigger } = at
  const nowMs = deps.clock.now()
  const promotions = deps.records.listPromotions(pipeline.uid)
  const status = buildPipelineStatus({ pipeline, trigger, observed, promotions, run, pending: plan.pending, nowMs })
  const difference = compareStatus(pipeline.status, status, nowMs)
  if (difference === null) return
  try {
    if ((await deps.writer.writePipelineStatus(pipeline, status, signal)) === null || difference === 'older') return
  } catch (error) {
    // An object that even its status cannot be written to breaks a limit of the schema; it is tried again, seldom.
    if (hasReason(error, 'Invalid')) deps.events.statusFailed(pipeline, error.message)
    throw error
  }
  if (run !== undefined && run.number !== pipeline.status.run?.number) {
    deps.events.runStarted(pipeline, run)
    deps.metrics.runStarted(run.cause.kind)
  }
  deps.events.targetErrors(pipeline, observed)
  deps.events.updated(pipeline, status)
}
