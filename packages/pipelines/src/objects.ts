// Pipeline and Promotion as the program reads them: the stored object, parsed once at the edge.
import { PIPELINE, PROMOTION } from '@brokkr/contract/pipelines/fields.ts'
import { PipelineStatus } from '@brokkr/contract/pipelines/pipeline-status.ts'
import { type Phase, PromotionSpec, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { type ValidatedSpec, validatePipelineSpec } from '@brokkr/contract/pipelines/validate.ts'
import { type KubeObject, nameKey } from '@brokkr/kube'

/** Identity and version of a stored object. `key` is `namespace/name`. */
export interface Stored {
  readonly key: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
  readonly resourceVersion: string
  readonly generation: number
  /** RFC 3339; the dates of commits come from it. */
  readonly createdAt: string
  readonly isDeleting: boolean
  readonly annotations: Readonly<Record<string, string>>
}

export interface PipelineRecord extends Stored {
  readonly spec: ValidatedSpec
  readonly status: PipelineStatus
  /** The stored form of the status, which the next patch is compared with. */
  readonly storedStatus: unknown
}

export interface PromotionRecord extends Stored {
  readonly spec: PromotionSpec
  readonly status: PromotionStatus
  readonly storedStatus: unknown
}

export function toPipelineRecord(object: KubeObject): PipelineRecord {
  const status = PipelineStatus.safeParse(object.status ?? {})
  return {
    ...toStored(object),
    spec: validatePipelineSpec(object.spec),
    // A status that does not parse is rebuilt. Run numbers then continue above the numbers of the promotions.
    status: status.success ? status.data : {},
    storedStatus: object.status ?? {},
  }
}

/** Null for an object that does not parse: the controller did not write it. */
export function toPromotionRecord(object: KubeObject): PromotionRecord | null {
  const spec = PromotionSpec.safeParse(object.spec)
  const status = PromotionStatus.safeParse(object.status ?? {})
  if (!spec.success || !status.success) return null
  return { ...toStored(object), spec: spec.data, status: status.data, storedStatus: object.status ?? {} }
}

/** A record without a status was created (W1) and not yet advanced. */
export const phaseOf = (promotion: PromotionRecord): Phase => promotion.status.phase ?? 'Pending'

export const pipelineRef = ({ namespace, name }: { namespace: string; name: string }) => ({ ...PIPELINE, namespace, name })
export const promotionRef = ({ namespace, name }: { namespace: string; name: string }) => ({ ...PROMOTION, namespace, name })

function toStored({ metadata }: KubeObject): Stored {
  return {
    key: nameKey(metadata),
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid ?? '',
    resourceVersion: metadata.resourceVersion ?? '',
    generation: metadata.generation ?? 0,
    createdAt: metadata.creationTimestamp ?? '',
    isDeleting: metadata.deletionTimestamp !== undefined,
    annotations: metadata.annotations ?? {},
  }
}
