// POST /promotion/{namespace}/{pipeline}/{source environment} with a Flux event. Under Watch it is a hint: the body is checked, never
// believed. Under Webhook it starts the run.
import type { Environment, PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { strategyKindOf } from '@brokkr/contract/pipelines/strategy.ts'
import { groupOf } from '@brokkr/kube'
import { z } from 'zod'
import { isHeld } from '../decide/decide.ts'
import { isOpen, newestOf } from '../decide/newest.ts'
import { effectivePolicy, promotionPolicyOf } from '../decide/policy.ts'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import { type HookAnswer, type HookRequest, Refusal } from './answer.ts'
import { authenticate, hookSecretOf } from './authenticate.ts'
import type { HooksContext } from './deps.ts'
import type { Subject } from './identity.ts'
import { requirePipeline, requireSpec } from './lookup.ts'
import { toAnswer, waitForAnswer } from './outcome.ts'
import { noStrategy, type RunOrder, recordPromotion, startRun } from './start-run.ts'
import { requestPass } from './writes.ts'

const FluxEvent = z.object({
  involvedObject: z.object({
    apiVersion: z.string().optional(),
    kind: z.string(),
    namespace: z.string().optional(),
    name: z.string(),
  }),
  metadata: z.record(z.string(), z.unknown()).optional(),
})
type FluxEvent = z.output<typeof FluxEvent>

interface Place {
  readonly source: Environment
  readonly isFirst: boolean
  readonly next: Environment
}

export async function handlePromotion(
  context: HooksContext,
  request: HookRequest,
  [namespace = '', name = '', sourceName = '']: readonly string[],
): Promise<HookAnswer> {
  const pipeline = await requirePipeline(context, { namespace, name }, request.signal)
  const spec = pipeline.spec.ok ? pipeline.spec.spec : null
  const index = spec?.environments.findIndex((each) => each.name === sourceName) ?? -1
  const next = index < 0 ? undefined : spec?.environments[index + 1]
  const subject = await authenticate(context, request, {
    access: { verb: 'promote', resource: 'pipelines', namespace, name },
    kind: 'event',
    pipeline,
    secretName: spec === null ? null : hookSecretOf(spec, next?.name ?? null),
  })
  const { event, revision } = readEvent(request.body)
  const checked = requireSpec(pipeline)
  const place = findPlace(checked, sourceName)
  checkObject(pipeline, checked, place.source, event)
  const policy = promotionPolicyOf(checked, place.next)
  if (policy === null || strategyKindOf(policy.strategy) === null) throw noStrategy(context, pipeline, place.next.name)
  const isWebhook = effectivePolicy(checked, context.settings.policy).trigger === 'Webhook'
  if (isWebhook) await recordEvent(context, { pipeline, spec: checked, place, revision, subject }, request.signal)
  else await requestPass(context.kube, pipeline, context.clock.now(), request.signal)
  context.wake(pipeline.key)
  return waitForAnswer(context, pipeline.key, () => findAnswer(context, pipeline, place.next.name, revision), request.signal)
}

function readEvent(body: Uint8Array): { event: FluxEvent; revision: string } {
  const event = FluxEvent.safeParse(parseJson(body))
  if (!event.success) throw new Refusal(400, 'the body must be a Flux event in JSON')
  const revision = event.data.metadata?.['revision']
  if (typeof revision !== 'string' || revision === '' || revision.length > 1024)
    throw new Refusal(422, 'the event has no metadata.revision')
  return { event: event.data, revision }
}

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    throw new Refusal(400, 'the body must be JSON')
  }
}

function findPlace(spec: PipelineSpec, sourceName: string): Place {
  const index = spec.environments.findIndex(({ name }) => name === sourceName)
  const [source, next] = spec.environments.slice(Math.max(0, index))
  if (index < 0 || source === undefined) throw new Refusal(422, `there is no environment ${sourceName}`)
  if (next === undefined) throw new Refusal(422, `environment ${sourceName} is the last: there is nothing to promote to`)
  if (next.targets.length === 0) throw new Refusal(422, `environment ${next.name} has no targets`)
  return { source, isFirst: index === 0, next }
}

function checkObject(pipeline: PipelineRecord, { appRef }: PipelineSpec, source: Environment, { involvedObject: object }: FluxEvent): void {
  const isSame =
    object.name === appRef.name &&
    object.kind === appRef.kind &&
    (object.apiVersion === undefined || groupOf(object.apiVersion) === groupOf(appRef.apiVersion))
  if (!isSame) throw new Refusal(422, `the event's object ${object.kind} ${object.name} does not match ${appRef.kind} ${appRef.name}`)
  const namespaces = source.targets.map((target) => target.namespace || pipeline.namespace)
  if (!namespaces.includes(object.namespace ?? ''))
    throw new Refusal(422, `the event's namespace ${object.namespace ?? ''} does not match a target of environment ${source.name}`)
}

/** Trigger Webhook: W0, unless the event belongs to the current run, and W1. Names are deterministic, so a repeated event finds its record. */
async function recordEvent(
  context: HooksContext,
  at: { pipeline: PipelineRecord; spec: PipelineSpec; place: Place; revision: string; subject: Subject | null },
  signal: AbortSignal,
): Promise<void> {
  const { spec, place, revision } = at
  if (spec.suspend === true) throw new Refusal(409, 'the pipeline is suspended')
  const actor = at.subject?.name.startsWith('user:') ? { actor: at.subject.name } : {}
  const { pipeline, run } = await startRun(
    context,
    at.pipeline,
    (fresh, promotions) => orderOf(context, { ...at, pipeline: fresh }, promotions, { kind: 'webhook', ...actor }),
    signal,
  )
  await recordPromotion(context, { pipeline, spec, environment: place.next }, { ...run, revision, series: 1 }, signal)
}

function orderOf(
  context: HooksContext,
  at: { pipeline: PipelineRecord; spec: PipelineSpec; place: Place; revision: string },
  promotions: readonly PromotionRecord[],
  cause: RunOrder['cause'],
): RunOrder | null {
  const { pipeline, revision } = at
  const { run } = pipeline.status
  if (run?.revision === revision) return null
  const policy = effectivePolicy(at.spec, context.settings.policy)
  if (!at.place.isFirst && promotions.some(({ spec }) => spec.revision === revision))
    throw new Refusal(409, `the run of ${revision} was superseded by run ${run?.number}`)
  if (isHeld({ pipeline, policy })) throw new Refusal(409, 'the pipeline is held')
  const isBusy = promotions.some((promotion) => promotion.spec.run === run?.number && isOpen(promotion))
  if (policy.supersede === 'Queue' && isBusy) throw new Refusal(409, `run ${run?.number} has not ended`)
  return { revision, cause, scope: [] }
}

/** Only the current run counts: an older one may have promoted the same revision. */
function findAnswer(context: HooksContext, at: PipelineRecord, environment: string, revision: string): HookAnswer | null {
  const run = context.records.getPipeline(at.key)?.status.run
  if (run?.revision !== revision) return null
  const promotion = newestOf(context.records.listPromotions(at.uid), run.number, environment)
  return promotion === null ? null : toAnswer(promotion, false)
}
