// POST /promotions/{namespace}/{name}/decision, /retry and /abort.
import { isTerminal } from '@brokkr/contract/pipelines/promotion.ts'
import { hasReason, timeText } from '@brokkr/kube'
import { z } from 'zod'
import { newestOf } from '../decide/newest.ts'
import { type PipelineRecord, type PromotionRecord, phaseOf } from '../objects.ts'
import { type HookAnswer, type HookRequest, Refusal } from './answer.ts'
import { authenticate, hookSecretOf, requireCredentials } from './authenticate.ts'
import type { HooksContext } from './deps.ts'
import type { Access, Subject } from './identity.ts'
import { requirePromotion, requireSpec } from './lookup.ts'
import { readJson } from './read-json.ts'
import { recordPromotion } from './start-run.ts'
import { listPromotions, readPromotion, writeUserRequest } from './writes.ts'

interface Found {
  readonly promotion: PromotionRecord
  readonly pipeline: PipelineRecord
  readonly subject: Subject
}

const DecisionBody = z.strictObject({
  decision: z.enum(['approve', 'reject']),
  key: z.string().min(1).max(64),
  message: z.string().max(4096).optional(),
})

export async function handleDecision(context: HooksContext, request: HookRequest, path: readonly string[]): Promise<HookAnswer> {
  const { promotion, pipeline, subject } = await find(context, request, path, { verb: 'approve', resource: 'promotions' })
  const { decision, key, message } = readJson(DecisionBody, request.body)
  const via = subject.name.startsWith('key:') ? 'hook' : 'api'
  const result = await context.decisions.record(
    promotion,
    { subject: subject.name, groups: subject.groups, decision, key, message, via },
    request.signal,
  )
  if (result.outcome === 'forbidden') throw new Refusal(403, result.reason)
  if (result.outcome === 'not-waiting')
    throw new Refusal(409, 'the promotion with this key does not await approval', { details: { currentKey: result.currentKey } })
  context.wake(pipeline.key)
  return { status: 200, body: { approvals: result.approvals, required: result.required } }
}

/** A Blocked promotion is tried at once; one that has ended gets the next series. */
export async function handleRetry(context: HooksContext, request: HookRequest, path: readonly string[]): Promise<HookAnswer> {
  const found = await find(context, request, path, { verb: 'promote', resource: 'pipelines' })
  const { promotion, pipeline } = found
  if (phaseOf(promotion) === 'Blocked') {
    await writeRequest(context, found, 'retry', request.signal)
    return { status: 202 }
  }
  const problem = findRetryProblem(promotion, pipeline, await listPromotions(context.kube, pipeline, request.signal))
  if (problem !== null) throw new Refusal(409, problem)
  const spec = requireSpec(pipeline)
  const environment = spec.environments.find(({ name }) => name === promotion.spec.environment)
  if (environment === undefined) throw new Refusal(409, `environment ${promotion.spec.environment} was removed`)
  const { run, revision, cause, series, approval } = promotion.spec
  const next = await recordPromotion(
    context,
    { pipeline, spec, environment },
    { number: run, revision, cause, series: series + 1, approval },
    request.signal,
  )
  context.wake(pipeline.key)
  return { status: 201, body: { namespace: next.namespace, name: next.name, key: next.spec.key, series: next.spec.series } }
}

function findRetryProblem(promotion: PromotionRecord, pipeline: PipelineRecord, promotions: readonly PromotionRecord[]): string | null {
  const phase = phaseOf(promotion)
  const { run, environment, series } = promotion.spec
  if (!isTerminal(phase)) return `the promotion is still open: ${phase}`
  if (phase === 'Succeeded') return 'the promotion has succeeded'
  if (pipeline.status.run?.number !== run) return `run ${run} is not the current run`
  const newest = newestOf(promotions, run, environment)?.spec.series ?? series
  return newest === series ? null : `series ${newest} has replaced this promotion`
}

export async function handleAbort(context: HooksContext, request: HookRequest, path: readonly string[]): Promise<HookAnswer> {
  const found = await find(context, request, path, { verb: 'promote', resource: 'pipelines' })
  const phase = phaseOf(found.promotion)
  if (isTerminal(phase)) throw new Refusal(409, `the promotion has ended: ${phase}`)
  await writeRequest(context, found, 'abort', request.signal)
  return { status: 202 }
}

/** The leader may write at the same time; the request holds as long as the phase is the same. */
async function writeRequest(context: HooksContext, found: Found, kind: 'abort' | 'retry', signal: AbortSignal): Promise<void> {
  const request = { kind, subject: found.subject.name, at: timeText(context.clock.now()) }
  const phase = phaseOf(found.promotion)
  for (let promotion: PromotionRecord | null = found.promotion, conflicts = 0; ; conflicts++) {
    if (promotion === null || phaseOf(promotion) !== phase) throw new Refusal(409, 'the promotion changed meanwhile: read it and try again')
    try {
      await writeUserRequest(context.kube, promotion, request, signal)
      break
    } catch (error) {
      if (!hasReason(error, 'Conflict') || conflicts >= CONFLICTS_MAX) throw error
    }
    promotion = await readPromotion(context.kube, promotion, signal)
  }
  context.wake(found.pipeline.key)
}

const CONFLICTS_MAX = 5

async function find(
  context: HooksContext,
  request: HookRequest,
  [namespace = '', name = '']: readonly string[],
  right: Pick<Access, 'verb' | 'resource'>,
): Promise<Found> {
  requireCredentials(request)
  const { promotion, pipeline } = await requirePromotion(context, { namespace, name }, request.signal)
  const subject = await authenticate(context, request, {
    access: { ...right, namespace, name: right.resource === 'pipelines' ? pipeline.name : name },
    kind: 'action',
    pipeline,
    secretName: pipeline.spec.ok ? hookSecretOf(pipeline.spec.spec, promotion.spec.environment) : null,
  })
  if (subject === null) throw new Refusal(401, 'a signature or a bearer token is needed')
  return { promotion, pipeline, subject }
}
