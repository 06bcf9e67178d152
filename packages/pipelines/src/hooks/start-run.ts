// Starts a run, or joins the current one, by CAS; and creates the record of one environment where no pass does it (trigger Webhook).
import type { Environment, PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import { type Approval, strategyKindOf } from '@brokkr/contract/pipelines/strategy.ts'
import { hasReason, timeText } from '@brokkr/kube'
import { buildPromotion } from '../decide/build-promotion.ts'
import { nextRunNumber } from '../decide/decide.ts'
import type { ObservedEnvironment } from '../decide/observed.ts'
import { effectivePolicy, promotionPolicyOf } from '../decide/policy.ts'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import { Refusal } from './answer.ts'
import type { HooksContext } from './deps.ts'
import { FAILED_TEXT } from './outcome.ts'
import { createPromotion, listPromotions, readPipeline, writeRun } from './writes.ts'

export interface RunOrder {
  readonly revision: string
  readonly cause: Run['cause']
  readonly scope: readonly string[]
  /** Revision of the first environment, which must not replace this run. */
  readonly firstRevision?: string | undefined
}

export interface StartedRun {
  readonly pipeline: PipelineRecord
  readonly run: Run
}

const CONFLICTS_MAX = 8

/**
 * `decide` looks at the Pipeline as it is stored and says which run to write; null: the current one is joined. It is asked again after a
 * conflict. Throws Refusal 409 when another run was started meanwhile.
 */
export async function startRun(
  context: HooksContext,
  pipeline: PipelineRecord,
  decide: (fresh: PipelineRecord, promotions: readonly PromotionRecord[]) => RunOrder | null,
  signal: AbortSignal,
): Promise<StartedRun> {
  const numberBefore = pipeline.status.run?.number
  for (let fresh = pipeline, conflicts = 0; ; conflicts++) {
    const promotions = await listPromotions(context.kube, fresh, signal)
    const order = decide(fresh, promotions)
    const { run: current } = fresh.status
    if (order === null && current !== undefined) return { pipeline: fresh, run: current }
    if (order === null) throw new Refusal(409, 'there is no run to join')
    try {
      const run = toRun(order, nextRunNumber(current, promotions), context.clock.now())
      return { pipeline: await writeRun(context.kube, fresh, run, signal), run }
    } catch (error) {
      if (!hasReason(error, 'Conflict') || conflicts >= CONFLICTS_MAX) throw error
    }
    fresh = await readAgain(context, pipeline, signal)
    if (fresh.status.run?.number !== numberBefore && decide(fresh, promotions) !== null)
      throw new Refusal(409, `run ${fresh.status.run?.number} was started meanwhile`)
  }
}

const toRun = ({ revision, cause, scope, firstRevision }: RunOrder, number: number, nowMs: number): Run => ({
  number,
  revision,
  startedAt: timeText(nowMs),
  cause,
  ...(scope.length === 0 ? {} : { scope: [...scope] }),
  ...(firstRevision === undefined ? {} : { firstRevision }),
})

async function readAgain(context: HooksContext, pipeline: PipelineRecord, signal: AbortSignal): Promise<PipelineRecord> {
  const fresh = await readPipeline(context.kube, pipeline, signal)
  if (fresh === null || fresh.uid !== pipeline.uid) throw new Refusal(404, `pipeline ${pipeline.key} not found`)
  return fresh
}

/** W1 for an environment. A record that exists under the same name is the same promotion. */
export async function recordPromotion(
  context: HooksContext,
  at: { readonly pipeline: PipelineRecord; readonly spec: PipelineSpec; readonly environment: Environment },
  run: {
    readonly number: number
    readonly revision: string
    readonly cause: Run['cause']
    readonly series: number
    /** What the series before needed: a retry needs no less. */
    readonly approval?: Approval | undefined
  },
  signal: AbortSignal,
): Promise<PromotionRecord> {
  const { pipeline, spec, environment } = at
  const policy = promotionPolicyOf(spec, environment)
  if (policy === null || strategyKindOf(policy.strategy) === null) throw noStrategy(context, pipeline, environment.name)
  const promotions = await listPromotions(context.kube, pipeline, signal)
  const built = buildPromotion(
    { pipeline, policy: effectivePolicy(spec, context.settings.policy), promotions },
    {
      environment,
      observed: findObserved(context, pipeline, environment.name),
      policy,
      run: { run: run.number, revision: run.revision, cause: run.cause },
      series: run.series,
    },
  )
  const approval = built.spec.approval ?? run.approval
  const record = { ...built, spec: { ...built.spec, ...(approval === undefined ? {} : { approval }) } }
  const promotion = await createPromotion(context.kube, pipeline, record, signal)
  if (promotion === null || promotion.spec.revision !== run.revision)
    throw new Refusal(409, `promotion ${built.name} exists for another revision`)
  return promotion
}

/** As this replica sees it: whether a hotfix is protected depends on it. Under Webhook nothing is observed. */
function findObserved(context: HooksContext, pipeline: PipelineRecord, environment: string): ObservedEnvironment {
  const nothing = { name: environment, targets: [] }
  const explanation = context.explain(pipeline.key)
  if (explanation === null || !explanation.pipeline.spec.ok) return nothing
  const { trigger } = effectivePolicy(explanation.pipeline.spec.spec, context.settings.policy)
  return trigger === 'Watch' ? (explanation.observed.find(({ name }) => name === environment) ?? nothing) : nothing
}

/** A fixed text: the sender of an event cannot repair the Pipeline. */
export function noStrategy(context: HooksContext, pipeline: PipelineRecord, environment: string): Refusal {
  context.log.warn('event refused: the environment has no promotion strategy', { pipeline: pipeline.key, environment })
  return new Refusal(500, FAILED_TEXT.trimEnd())
}
