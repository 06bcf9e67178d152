// POST /pipelines/{namespace}/{name}/runs: a run that a user starts. A rollback also holds the Pipeline, so that no observed revision
// replaces it. A request with an Idempotency-Key starts one run, however often it is repeated.
import { hash } from 'node:crypto'
import { environmentName, revisionText } from '@brokkr/contract/pipelines/fields.ts'
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import { z } from 'zod'
import { settledRevision } from '../decide/observed.ts'
import { effectivePolicy } from '../decide/policy.ts'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import { type HookAnswer, type HookRequest, Refusal } from './answer.ts'
import { authenticate, hookSecretOf, requireCredentials } from './authenticate.ts'
import type { HooksContext } from './deps.ts'
import { requirePipeline, requireSpec } from './lookup.ts'
import { readJson } from './read-json.ts'
import { type RunOrder, recordPromotion, type StartedRun, startRun } from './start-run.ts'
import { listPromotions, setHold } from './writes.ts'

const RunBody = z.strictObject({
  revision: revisionText,
  /** Empty or absent: all after the first. */
  environments: z.array(environmentName).max(50).optional(),
  kind: z.enum(['manual', 'rollback']),
})

export async function handleStartRun(
  context: HooksContext,
  request: HookRequest,
  [namespace = '', name = '']: readonly string[],
): Promise<HookAnswer> {
  const { signal } = request
  requireCredentials(request)
  const pipeline = await requirePipeline(context, { namespace, name }, signal)
  const subject = await authenticate(context, request, {
    access: { verb: 'promote', resource: 'pipelines', namespace, name },
    kind: 'action',
    pipeline,
    secretName: pipeline.spec.ok ? hookSecretOf(pipeline.spec.spec, null) : null,
  })
  if (subject === null) throw new Refusal(401, 'a signature or a bearer token is needed')
  const order = readJson(RunBody, request.body)
  const { revision, kind, environments: scope = [] } = order
  const requestId = readRequestId(request, subject.id, order)
  const spec = requireSpec(pipeline)
  const unknown = scope.find((environment) => !spec.environments.some((each) => each.name === environment))
  if (unknown !== undefined) throw new Refusal(422, `there is no environment ${unknown}`)
  const repeated = requestId === null ? null : findRepeated(pipeline, await listPromotions(context.kube, pipeline, signal), requestId)
  if (repeated !== null) return finish(context, spec, { pipeline, run: repeated }, signal)
  if (spec.suspend === true) throw new Refusal(409, 'the pipeline is suspended')
  // Held first: a pass between the two writes must not start a run of the observed revision.
  const held = kind === 'rollback' ? await setHold(context.kube, pipeline, signal) : pipeline
  // A rollback holds the Pipeline instead; when it is released, the observed revision starts a run.
  const observed = kind === 'manual' ? findFirstRevision(context, pipeline, spec) : undefined
  const toOrder = ({ status }: PipelineRecord): RunOrder | null =>
    // The same request was faster over another connection.
    requestId !== null && isRepetition(status.run?.cause.request, requestId)
      ? null
      : {
          revision,
          cause: { kind, actor: subject.name, ...(requestId === null ? {} : { request: requestId }) },
          scope,
          firstRevision: keepFirstRevision(observed, status.run),
        }
  return finish(context, spec, await startRun(context, held, toOrder, signal), signal)
}

/** The rest of a request, also of a repeated one: the first may have ended between its two writes. */
async function finish(context: HooksContext, spec: PipelineSpec, started: StartedRun, signal: AbortSignal): Promise<HookAnswer> {
  const { number, revision, startedAt, cause, scope = [] } = started.run
  if (started.pipeline.status.run?.number === number) await recordFirst(context, spec, started, signal)
  context.wake(started.pipeline.key)
  const { request: _request, ...shown } = cause
  return { status: 201, body: { number, revision, startedAt, cause: shown, scope } }
}

const REQUEST_KEY = /^[\x21-\x7e]{1,255}$/

const HASH_LENGTH = 32
const toHash = (...parts: readonly string[]): string => hash('sha256', parts.join('\n')).slice(0, HASH_LENGTH)

/** Hash of the caller and its Idempotency-Key, then hash of the order; null: the caller sent no key. */
function readRequestId({ headers }: HookRequest, callerId: string, order: z.output<typeof RunBody>): string | null {
  const key = headers['idempotency-key']
  if (key === undefined) return null
  if (typeof key !== 'string' || !REQUEST_KEY.test(key)) throw new Refusal(400, 'Idempotency-Key has 1 to 255 visible ASCII characters')
  const { revision, kind, environments = [] } = order
  return toHash(callerId, key) + toHash(kind, revision, ...[...new Set(environments)].toSorted())
}

/**
 * Whether the run was started by the same request. Throws Refusal 422 when the caller used the key for another order. A run of an older
 * version stored no hash of its order.
 */
export function isRepetition(stored: string | undefined, requestId: string): boolean {
  if (stored?.slice(0, HASH_LENGTH) !== requestId.slice(0, HASH_LENGTH)) return false
  if (stored.length > HASH_LENGTH && stored !== requestId)
    throw new Refusal(422, 'Idempotency-Key was used for another run: send a new key, or repeat the first request unchanged')
  return true
}

/** The run that the same request started before; null: none. A run that another one replaced is known by its promotions. */
function findRepeated({ status }: PipelineRecord, promotions: readonly PromotionRecord[], requestId: string): Run | null {
  if (status.run !== undefined && isRepetition(status.run.cause.request, requestId)) return status.run
  const own = promotions.filter(({ spec }) => isRepetition(spec.cause.request, requestId))
  const [first] = own
  if (first === undefined) return null
  const { run: number, revision, cause } = first.spec
  return { number, revision, startedAt: first.createdAt, cause, scope: [...new Set(own.map(({ spec }) => spec.environment))] }
}

/** What the first environment runs now, as this replica sees it or as the leader last wrote it. */
function findFirstRevision(context: HooksContext, pipeline: PipelineRecord, spec: PipelineSpec): string | undefined {
  const [first] = context.explain(pipeline.key)?.observed ?? []
  const seen = first === undefined ? null : settledRevision(first)
  return seen ?? pipeline.status.environments?.[spec.environments[0]?.name ?? '']?.latestRevision
}

/** A revision of the first environment that had no run yet still starts one: only one that the replaced run covered is stored. */
export const keepFirstRevision = (observed: string | undefined, replaced: Run | undefined): string | undefined =>
  replaced !== undefined && (observed === replaced.revision || observed === replaced.firstRevision) ? observed : undefined

/** Under Webhook no pass creates records: the first environment of the run gets its record here, the others by events. */
async function recordFirst(context: HooksContext, spec: PipelineSpec, { pipeline, run }: StartedRun, signal: AbortSignal): Promise<void> {
  if (effectivePolicy(spec, context.settings.policy).trigger !== 'Webhook') return
  const { scope = [] } = run
  const environment = spec.environments.find(
    ({ name, targets }, index) => targets.length > 0 && (scope.length > 0 ? scope.includes(name) : index > 0),
  )
  if (environment !== undefined) await recordPromotion(context, { pipeline, spec, environment }, { ...run, series: 1 }, signal)
}
