// POST /approval/{namespace}/{pipeline}/{environment}/{revision}: approves the promotion that awaits that revision.
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import { phaseOf } from '../objects.ts'
import { type HookAnswer, type HookRequest, Refusal } from './answer.ts'
import { authenticate, hookSecretOf } from './authenticate.ts'
import type { HooksContext } from './deps.ts'
import { requirePipeline } from './lookup.ts'
import { toAnswer, waitForAnswer } from './outcome.ts'
import { listPromotions } from './writes.ts'

export async function handleApproval(
  context: HooksContext,
  request: HookRequest,
  [namespace = '', name = '', environment = '', revision = '']: readonly string[],
): Promise<HookAnswer> {
  const { signal } = request
  const pipeline = await requirePipeline(context, { namespace, name }, signal)
  const subject = await authenticate(context, request, {
    access: { verb: 'approve', resource: 'promotions', namespace, name: '' },
    kind: 'action',
    pipeline,
    secretName: pipeline.spec.ok ? hookSecretOf(pipeline.spec.spec, environment) : null,
  })
  if (subject === null) throw new Refusal(401, 'a signature or a bearer token is needed')
  const promotion = await findAwaiting(context, pipeline, environment, revision, signal)
  const result = await context.decisions.record(
    promotion,
    { subject: subject.name, groups: subject.groups, decision: 'approve', key: promotion.spec.key, message: undefined, via: 'hook' },
    signal,
  )
  if (result.outcome === 'forbidden') throw new Refusal(403, result.reason)
  if (result.outcome === 'not-waiting') throw notAwaiting(environment, revision)
  context.wake(pipeline.key)
  if (result.approvals < result.required) return { status: 202, body: { approvals: result.approvals, required: result.required } }
  const find = () => {
    const current = context.records.getPromotion(promotion.key)
    return current === undefined ? null : toAnswer(current, true)
  }
  return waitForAnswer(context, pipeline.key, find, signal)
}

async function findAwaiting(
  context: HooksContext,
  pipeline: PipelineRecord,
  environment: string,
  revision: string,
  signal: AbortSignal,
): Promise<PromotionRecord> {
  const promotions = await listPromotions(context.kube, pipeline, signal)
  const awaiting = promotions.findLast(
    (each) => each.spec.environment === environment && each.spec.revision === revision && phaseOf(each) === 'AwaitingApproval',
  )
  if (awaiting === undefined) throw notAwaiting(environment, revision)
  return awaiting
}

const notAwaiting = (environment: string, revision: string): Refusal =>
  new Refusal(422, `no promotion into ${environment} awaits approval of ${revision}`)
