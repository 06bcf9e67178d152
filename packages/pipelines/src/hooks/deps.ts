// What the HTTP side needs. Handlers run on every replica and only write data (annotation, run, record, decision) by CAS; the leader acts.
import type { Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { Decisions } from '../approvals/decisions.ts'
import type { Plan } from '../decide/decide.ts'
import type { ObservedEnvironment } from '../decide/observed.ts'
import type { DecideSettings } from '../decide/policy.ts'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import type { NonceStore } from './nonces.ts'
import type { RateLimitSettings } from './rate-limit.ts'

/** Reads from the informer caches of the management cluster. */
export interface RecordCache {
  getPipeline(key: string): PipelineRecord | undefined
  listPipelines(): Iterable<PipelineRecord>
  /** Promotions of one Pipeline (by UID), oldest run first. */
  listPromotions(pipelineUid: string): readonly PromotionRecord[]
  getPromotion(key: string): PromotionRecord | undefined
  /** Called after every change of a Pipeline or Promotion, with the Pipeline's `namespace/name`. Returns the unsubscriber. */
  onChange(listener: (pipelineKey: string) => void): () => void
}

/** What a pass would see and decide now, from the caches of this replica. */
export interface Explanation {
  readonly pipeline: PipelineRecord
  readonly observed: readonly ObservedEnvironment[]
  readonly plan: Plan
}

export interface HooksDeps {
  /** Management cluster. */
  readonly kube: Kube
  readonly records: RecordCache
  readonly decisions: Decisions
  /** Wakes a Pipeline's pass on this replica; on a standby it has no effect. */
  wake(pipelineKey: string): void
  /** Null: there is no such Pipeline. */
  explain(pipelineKey: string): Explanation | null
  /** The change that the next promotion would make, as a unified diff; null: there is none. */
  preview(pipelineKey: string, signal: AbortSignal): Promise<string | null>
  /** Warning event on a Pipeline. */
  warn(pipeline: PipelineRecord, reason: string, message: string): void
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

export interface HooksSettings {
  readonly host: string
  /** 0: a free one. */
  readonly port: number
  /** PEM texts; null: plain HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | null
  readonly rateLimit: RateLimitSettings
  /** Networks of proxies whose headers name the client. */
  readonly trustedProxies: readonly string[]
  /** Keys whose holders name the person for whom they speak. */
  readonly vouchingKeys: readonly Uint8Array[]
  readonly allowLegacySignature: boolean
  readonly allowUnsignedPromotion: boolean
  /** How long a hook waits for the outcome of what it wrote. */
  readonly waitMs: number
  /** Namespace of the ConfigMap with used nonces. */
  readonly namespace: string
  readonly policy: Pick<DecideSettings, 'defaultTrigger' | 'attempts'>
}

/** What handlers get. */
export interface HooksContext extends HooksDeps {
  readonly settings: HooksSettings
  readonly nonces: NonceStore
}
