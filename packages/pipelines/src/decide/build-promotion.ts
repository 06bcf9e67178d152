// The record of a new promotion: everything that the effect depends on is frozen into its spec. Pure.
import { PIPELINE, PROMOTION, PROMOTION_LABELS } from '@brokkr/contract/pipelines/fields.ts'
import type { Environment } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { PromotionSpec } from '@brokkr/contract/pipelines/promotion.ts'
import type { PromotionPolicy } from '@brokkr/contract/pipelines/strategy.ts'
import type { KubeObject } from '@brokkr/kube'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import { isDiverged } from './newest.ts'
import type { ObservedEnvironment } from './observed.ts'
import { type EffectivePolicy, requiredApproval } from './policy.ts'
import { promotionKey, promotionName, toLabelValue } from './promotion-key.ts'

export interface NewPromotion {
  readonly environment: Environment
  readonly observed: ObservedEnvironment
  readonly policy: PromotionPolicy
  readonly run: Pick<PromotionSpec, 'run' | 'revision' | 'cause'>
  readonly series: number
}

export function buildPromotion(
  context: { readonly pipeline: PipelineRecord; readonly policy: EffectivePolicy; readonly promotions: readonly PromotionRecord[] },
  input: NewPromotion,
): { name: string; spec: PromotionSpec } {
  const { pipeline, policy } = context
  const { environment, observed, run, series } = input
  const identity = { pipelineUid: pipeline.uid, environment: environment.name, run: run.run, series }
  const isHotfixProtected = policy.hotfix === 'Protect' && isDiverged(context.promotions, observed)
  const approval = requiredApproval({ environment, policy: input.policy, isHotfixProtected })
  const previousRevisions = [...new Set(observed.targets.flatMap(({ revision }) => revision ?? []))]
  const spec: PromotionSpec = {
    pipelineRef: { name: pipeline.name, uid: pipeline.uid },
    run: run.run,
    environment: environment.name,
    revision: run.revision,
    series,
    key: promotionKey(identity),
    ...(previousRevisions.length > 0 ? { previousRevisions } : {}),
    cause: run.cause,
    strategy: input.policy.strategy,
    ...(approval === undefined ? {} : { approval }),
    supersede: policy.supersede,
    ...(policy.deadline === undefined ? {} : { deadline: policy.deadline }),
    attempts: policy.attempts,
    attemptAge: policy.attemptAge,
    soak: policy.soak,
  }
  return { name: promotionName(pipeline.name, identity), spec }
}

/** The object that W1 creates. */
export function toPromotionObject(pipeline: PipelineRecord, { name, spec }: { name: string; spec: PromotionSpec }): KubeObject {
  return {
    ...PROMOTION,
    metadata: {
      name,
      namespace: pipeline.namespace,
      labels: {
        [PROMOTION_LABELS.pipeline]: toLabelValue(pipeline.name),
        [PROMOTION_LABELS.environment]: toLabelValue(spec.environment),
        [PROMOTION_LABELS.run]: String(spec.run),
      },
      ownerReferences: [{ ...PIPELINE, name: pipeline.name, uid: pipeline.uid, controller: true }],
    },
    spec: { ...spec },
  }
}
