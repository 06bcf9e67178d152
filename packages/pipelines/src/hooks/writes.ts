// The writes of hooks: run, record, request of a user, annotation. Every status write is a CAS on the version that was read.
import { FIELD_MANAGER, HOLD_ANNOTATION, PROMOTION, PROMOTION_LABELS, REQUESTED_AT_ANNOTATION } from '@brokkr/contract/pipelines/fields.ts'
import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import type { PromotionSpec } from '@brokkr/contract/pipelines/promotion.ts'
import { hasReason, type Kube } from '@brokkr/kube'
import { toPromotionObject } from '../decide/build-promotion.ts'
import { toLabelValue } from '../decide/promotion-key.ts'
import { type PipelineRecord, type PromotionRecord, pipelineRef, promotionRef, toPipelineRecord, toPromotionRecord } from '../objects.ts'

type At = { readonly namespace: string; readonly name: string }

export async function readPipeline(kube: Kube, at: At, signal: AbortSignal): Promise<PipelineRecord | null> {
  const object = await kube.find(pipelineRef(at), { signal })
  return object === undefined ? null : toPipelineRecord(object)
}

export async function readPromotion(kube: Kube, at: At, signal: AbortSignal): Promise<PromotionRecord | null> {
  const object = await kube.find(promotionRef(at), { signal })
  return object === undefined ? null : toPromotionRecord(object)
}

/** All promotions of a Pipeline, read directly. */
export async function listPromotions(kube: Kube, pipeline: PipelineRecord, signal: AbortSignal): Promise<PromotionRecord[]> {
  const labelSelector = `${PROMOTION_LABELS.pipeline}=${toLabelValue(pipeline.name)}`
  const { items } = await kube.list(PROMOTION, { namespace: pipeline.namespace, labelSelector, signal })
  return items.flatMap((item) => toPromotionRecord(item) ?? []).filter(({ spec }) => spec.pipelineRef.uid === pipeline.uid)
}

/** W0. Throws Conflict when the Pipeline changed since it was read. */
export async function writeRun(kube: Kube, pipeline: PipelineRecord, run: Run, signal: AbortSignal): Promise<PipelineRecord> {
  // A merge patch keeps keys that it does not name: what only the run before had must go.
  const body = {
    metadata: { resourceVersion: pipeline.resourceVersion },
    status: {
      run: {
        ...run,
        scope: run.scope ?? null,
        firstRevision: run.firstRevision ?? null,
        cause: { ...run.cause, actor: run.cause.actor ?? null, request: run.cause.request ?? null },
      },
    },
  }
  const object = await kube.patch(
    pipelineRef(pipeline),
    { type: 'merge', body },
    { subresource: 'status', fieldManager: FIELD_MANAGER, signal },
  )
  return toPipelineRecord(object)
}

/** W1. One create wins, every other reads what won. */
export async function createPromotion(
  kube: Kube,
  pipeline: PipelineRecord,
  promotion: { name: string; spec: PromotionSpec },
  signal: AbortSignal,
): Promise<PromotionRecord | null> {
  try {
    return toPromotionRecord(await kube.create(toPromotionObject(pipeline, promotion), { fieldManager: FIELD_MANAGER, signal }))
  } catch (error) {
    if (!hasReason(error, 'AlreadyExists')) throw error
    return readPromotion(kube, { namespace: pipeline.namespace, name: promotion.name }, signal)
  }
}

/** A user's request, which the leader executes. */
export async function writeUserRequest(
  kube: Kube,
  promotion: PromotionRecord,
  request: { readonly kind: 'abort' | 'retry'; readonly subject: string; readonly at: string },
  signal: AbortSignal,
): Promise<void> {
  const { kind, subject, at } = request
  const body = { metadata: { resourceVersion: promotion.resourceVersion }, status: { [kind]: { subject, at } } }
  await kube.patch(promotionRef(promotion), { type: 'merge', body }, { subresource: 'status', fieldManager: FIELD_MANAGER, signal })
}

export async function setHold(kube: Kube, pipeline: PipelineRecord, signal: AbortSignal): Promise<PipelineRecord> {
  return toPipelineRecord(await annotate(kube, pipeline, { [HOLD_ANNOTATION]: 'true' }, signal))
}

/** Wakes the leader, wherever it runs. */
export async function requestPass(kube: Kube, pipeline: PipelineRecord, nowMs: number, signal: AbortSignal): Promise<void> {
  const lastMs = Date.parse(pipeline.annotations[REQUESTED_AT_ANNOTATION] ?? '')
  if (Math.abs(nowMs - lastMs) < REQUEST_EVERY_MS) return
  await annotate(kube, pipeline, { [REQUESTED_AT_ANNOTATION]: new Date(nowMs).toISOString() }, signal)
}

/** Many hints in a short time are one. */
const REQUEST_EVERY_MS = 1_000

const annotate = (kube: Kube, pipeline: PipelineRecord, annotations: Record<string, string>, signal: AbortSignal) =>
  kube.patch(pipelineRef(pipeline), { type: 'merge', body: { metadata: { annotations } } }, { fieldManager: FIELD_MANAGER, signal })
