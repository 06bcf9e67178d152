// All writes of Pipeline and Promotion records. Every status write is a CAS on the resourceVersion that was read and carries the epoch of
// the leader's term; a smaller epoch of the same Lease never overwrites a larger one.
import { FIELD_MANAGER, PROMOTION, PROMOTION_LABELS } from '@brokkr/contract/pipelines/fields.ts'
import type { PipelineStatus } from '@brokkr/contract/pipelines/pipeline-status.ts'
import type { PromotionSpec, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { hasReason, type Kube, KubeError, type KubeObject } from '@brokkr/kube'
import { toPromotionObject } from '../decide/build-promotion.ts'
import { toLabelValue } from '../decide/promotion-key.ts'
import { type PipelineRecord, type PromotionRecord, pipelineRef, promotionRef, toPipelineRecord, toPromotionRecord } from '../objects.ts'
import { isOutranked, type Leadership } from './leadership.ts'
import { toMergePatch } from './merge-patch.ts'

export class RecordWriter {
  readonly #kube: Kube
  readonly #leadership: Leadership

  constructor(deps: { kube: Kube; leadership: Leadership }) {
    this.#kube = deps.kube.with({ guard: () => deps.leadership.assertLeader() })
    this.#leadership = deps.leadership
  }

  async readPipeline(at: { namespace: string; name: string }, signal: AbortSignal): Promise<PipelineRecord | null> {
    const object = await this.#kube.find(pipelineRef(at), { signal })
    return object === undefined ? null : toPipelineRecord(object)
  }

  async readPromotion(at: { namespace: string; name: string }, signal: AbortSignal): Promise<PromotionRecord | null> {
    const object = await this.#kube.find(promotionRef(at), { signal })
    return object === undefined ? null : toPromotionRecord(object)
  }

  /** All promotions of a Pipeline, read directly: run numbers must not be taken from a cache. */
  async listPromotions(pipeline: PipelineRecord, signal: AbortSignal): Promise<PromotionRecord[]> {
    const labelSelector = `${PROMOTION_LABELS.pipeline}=${toLabelValue(pipeline.name)}`
    const { items } = await this.#kube.list(PROMOTION, { namespace: pipeline.namespace, labelSelector, signal })
    return items.flatMap((item) => toPromotionRecord(item) ?? []).filter(({ spec }) => spec.pipelineRef.uid === pipeline.uid)
  }

  /** W0 and the status of every pass: one patch. Null: nothing differed. */
  async writePipelineStatus(pipeline: PipelineRecord, status: PipelineStatus, signal: AbortSignal): Promise<PipelineRecord | null> {
    const patch = toMergePatch(pipeline.storedStatus, status)
    if (patch === undefined) return null
    return toPipelineRecord(await this.#patchStatus(pipelineRef(pipeline), pipeline.resourceVersion, patch, signal))
  }

  /** W1. The API server is the arbiter: one create wins, every other reads what won. */
  async createPromotion(
    pipeline: PipelineRecord,
    promotion: { name: string; spec: PromotionSpec },
    signal: AbortSignal,
  ): Promise<{ outcome: 'created' | 'exists'; promotion: PromotionRecord | null }> {
    try {
      const object = await this.#kube.create(toPromotionObject(pipeline, promotion), { fieldManager: FIELD_MANAGER, signal })
      return { outcome: 'created', promotion: toPromotionRecord(object) }
    } catch (error) {
      if (!hasReason(error, 'AlreadyExists')) throw error
      return { outcome: 'exists', promotion: await this.readPromotion({ namespace: pipeline.namespace, name: promotion.name }, signal) }
    }
  }

  /** W2 to W6. Throws Conflict when the record changed since it was read, and when a newer leader wrote it. */
  async writePromotionStatus(promotion: PromotionRecord, status: PromotionStatus, signal: AbortSignal): Promise<PromotionRecord> {
    const { holder, epoch, leaseUid } = this.#leadership
    const last = promotion.status.lease
    if (isOutranked(this.#leadership, last))
      throw new KubeError(`Promotion ${promotion.key} was written under epoch ${last?.epoch}, ours is ${epoch}`, { reason: 'Conflict' })
    const lease = { holder, epoch, ...(leaseUid === null ? {} : { uid: leaseUid }) }
    const patch = toMergePatch(promotion.storedStatus, { ...status, lease })
    if (patch === undefined) return promotion
    const object = await this.#patchStatus(promotionRef(promotion), promotion.resourceVersion, patch, signal)
    return toPromotionRecord(object) ?? promotion
  }

  async deletePromotion(promotion: PromotionRecord, signal: AbortSignal): Promise<void> {
    const { uid, resourceVersion } = promotion
    await this.#kube.delete(promotionRef(promotion), { uid, resourceVersion, signal }).catch((error: unknown) => {
      if (!hasReason(error, 'NotFound')) throw error
    })
  }

  #patchStatus(
    ref: ReturnType<typeof pipelineRef> | ReturnType<typeof promotionRef>,
    resourceVersion: string,
    status: unknown,
    signal: AbortSignal,
  ): Promise<KubeObject> {
    const body = { metadata: { resourceVersion }, status }
    return this.#kube.patch(ref, { type: 'merge', body }, { subresource: 'status', fieldManager: FIELD_MANAGER, signal })
  }
}
