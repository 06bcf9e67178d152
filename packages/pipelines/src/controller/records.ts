// Pipelines and Promotions of the management cluster, as informers hold them. A pass reads from here; what must not be stale is read again
// directly before an effect (W2).
import { PIPELINE, PROMOTION } from '@brokkr/contract/pipelines/fields.ts'
import { type Informer, type Kube, startInformer } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { RecordCache } from '../hooks/deps.ts'
import { type PipelineRecord, type PromotionRecord, toPipelineRecord, toPromotionRecord } from '../objects.ts'

export class Records implements RecordCache {
  readonly #pipelines: Informer<PipelineRecord>
  readonly #promotions: Informer<PromotionRecord | null>
  readonly #byPipeline = new Map<string, Map<string, PromotionRecord>>()
  readonly #listeners = new Set<(pipelineKey: string) => void>()

  constructor(deps: { kube: Kube; clock: Clock; log: Log }) {
    this.#pipelines = startInformer(deps, { kind: PIPELINE, project: toPipelineRecord })
    this.#promotions = startInformer(deps, { kind: PROMOTION, project: toPromotionRecord })
    this.#promotions.onChange((change) => {
      if (change.type === 'updated' && change.before !== null) this.#remove(change.before)
      if (change.value === null) return
      if (change.type === 'deleted') this.#remove(change.value)
      else this.#add(change.value)
      this.#notify(`${change.value.namespace}/${change.value.spec.pipelineRef.name}`)
    })
    this.#pipelines.onChange(({ key }) => this.#notify(key))
  }

  get isSynced(): boolean {
    return this.#pipelines.synced && this.#promotions.synced
  }

  async whenSynced(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#pipelines.whenSynced(signal), this.#promotions.whenSynced(signal)])
  }

  getPipeline(key: string): PipelineRecord | undefined {
    return this.#pipelines.get(key)
  }

  *listPipelines(): Generator<PipelineRecord> {
    for (const [, pipeline] of this.#pipelines.entries()) yield pipeline
  }

  getPromotion(key: string): PromotionRecord | undefined {
    return this.#promotions.get(key) ?? undefined
  }

  listPromotions(pipelineUid: string): readonly PromotionRecord[] {
    const own = [...(this.#byPipeline.get(pipelineUid)?.values() ?? [])]
    return own.toSorted((a, b) => a.spec.run - b.spec.run || a.spec.series - b.spec.series)
  }

  onChange(listener: (pipelineKey: string) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async stop(): Promise<void> {
    await Promise.all([this.#pipelines.stop(), this.#promotions.stop()])
  }

  #add(promotion: PromotionRecord): void {
    const own = this.#byPipeline.get(promotion.spec.pipelineRef.uid) ?? new Map<string, PromotionRecord>()
    own.set(promotion.key, promotion)
    this.#byPipeline.set(promotion.spec.pipelineRef.uid, own)
  }

  #remove(promotion: PromotionRecord): void {
    const own = this.#byPipeline.get(promotion.spec.pipelineRef.uid)
    own?.delete(promotion.key)
    if (own?.size === 0) this.#byPipeline.delete(promotion.spec.pipelineRef.uid)
  }

  #notify(pipelineKey: string): void {
    for (const listener of this.#listeners) listener(pipelineKey)
  }
}
