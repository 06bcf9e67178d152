// GET /pipelines/{namespace}/{name}/explain: each target, each predicate, the next step and, with diff=1, the change it would commit. Nothing is written.
import type { Environment, PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { strategyKindOf } from '@brokkr/contract/pipelines/strategy.ts'
import type { Step } from '../decide/decide.ts'
import { isHeld } from '../decide/decide.ts'
import { newestOf } from '../decide/newest.ts'
import { isIndefinite, isSettledOn, type ObservedEnvironment, settledRevision } from '../decide/observed.ts'
import { effectivePolicy, promotionPolicyOf } from '../decide/policy.ts'
import { type PipelineRecord, phaseOf } from '../objects.ts'
import { type HookAnswer, type HookRequest, Refusal } from './answer.ts'
import { authenticate, hookSecretOf, requireCredentials } from './authenticate.ts'
import type { Explanation, HooksContext } from './deps.ts'
import { requirePipeline, requireSpec } from './lookup.ts'

export async function handleExplain(
  context: HooksContext,
  request: HookRequest,
  [namespace = '', name = '']: readonly string[],
): Promise<HookAnswer> {
  requireCredentials(request)
  const pipeline = await requirePipeline(context, { namespace, name }, request.signal)
  await authenticate(context, request, {
    access: { verb: 'get', resource: 'pipelines', namespace, name },
    kind: 'action',
    pipeline,
    secretName: pipeline.spec.ok ? hookSecretOf(pipeline.spec.spec, null) : null,
  })
  requireSpec(pipeline)
  const explanation = context.explain(pipeline.key)
  if (explanation === null) throw new Refusal(503, 'the pipeline is not in the cache yet: try again', { headers: { 'retry-after': '1' } })
  const body = toBody(context, explanation, requireSpec(explanation.pipeline))
  if (request.query.get('diff') !== '1') return { status: 200, body }
  return { status: 200, body: { ...body, diff: await context.preview(pipeline.key, request.signal) } }
}

function toBody(context: HooksContext, { pipeline, observed, plan }: Explanation, spec: PipelineSpec): object {
  const policy = effectivePolicy(spec, context.settings.policy)
  return {
    run: pipeline.status.run ?? null,
    trigger: policy.trigger,
    suspended: spec.suspend === true,
    held: isHeld({ pipeline, policy }),
    environments: spec.environments.map((environment, index) => toEnvironment(context, pipeline, spec, environment, observed[index])),
    next: describeStep(plan.step),
    pending: plan.pending,
    wakeAt: plan.wakeAtMs === null ? null : new Date(plan.wakeAtMs).toISOString(),
  }
}

function toEnvironment(
  context: HooksContext,
  pipeline: PipelineRecord,
  spec: PipelineSpec,
  environment: Environment,
  observed: ObservedEnvironment = { name: environment.name, targets: [] },
): object {
  const { run } = pipeline.status
  const policy = promotionPolicyOf(spec, environment)
  const newest = run === undefined ? null : newestOf(context.records.listPromotions(pipeline.uid), run.number, environment.name)
  return {
    name: environment.name,
    settledOn: settledRevision(observed),
    predicates: {
      hasTargets: environment.targets.length > 0,
      everyTargetReadable: !isIndefinite(observed),
      settledOnRun: run !== undefined && isSettledOn(observed, run.revision),
      hasPromotionSpec: policy !== null,
      hasStrategy: policy !== null && strategyKindOf(policy.strategy) !== null,
    },
    targets: observed.targets.map(({ presence, ready, revision, error }) => ({ presence, ready, revision, error })),
    promotion: newest === null ? null : { name: newest.name, key: newest.spec.key, phase: phaseOf(newest) },
  }
}

function describeStep(step: Step): object {
  if (step.do === 'start-run') return { do: step.do, revision: step.run.revision }
  if (step.do === 'create') return { do: step.do, promotion: step.name, environment: step.spec.environment, revision: step.spec.revision }
  if (step.do === 'advance') return { do: step.advance.do, promotion: step.promotion.name }
  return step.do === 'nothing' ? { do: step.do } : { do: step.do, promotion: step.promotion.name }
}
