// Finds what a path names, or refuses.
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'
import { Refusal } from './answer.ts'
import type { HooksContext } from './deps.ts'
import { readPipeline, readPromotion } from './writes.ts'

type At = { readonly namespace: string; readonly name: string }

const isObjectName = (text: string): boolean => /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(text)

/** Read directly, so that a Pipeline of this moment is found on every replica. */
export async function requirePipeline({ kube }: HooksContext, at: At, signal: AbortSignal): Promise<PipelineRecord> {
  const pipeline = isObjectName(at.namespace) && isObjectName(at.name) ? await readPipeline(kube, at, signal) : null
  if (pipeline === null || pipeline.isDeleting) throw new Refusal(404, `pipeline ${at.namespace}/${at.name} not found`)
  return pipeline
}

/** A promotion and the Pipeline that owns it. */
export async function requirePromotion(
  context: HooksContext,
  at: At,
  signal: AbortSignal,
): Promise<{ promotion: PromotionRecord; pipeline: PipelineRecord }> {
  const promotion = isObjectName(at.namespace) && isObjectName(at.name) ? await readPromotion(context.kube, at, signal) : null
  if (promotion === null) throw new Refusal(404, `promotion ${at.namespace}/${at.name} not found`)
  const pipeline = await requirePipeline(context, { namespace: at.namespace, name: promotion.spec.pipelineRef.name }, signal)
  if (pipeline.uid !== promotion.spec.pipelineRef.uid) throw new Refusal(404, `the pipeline of ${at.namespace}/${at.name} was replaced`)
  return { promotion, pipeline }
}

export function requireSpec(pipeline: PipelineRecord): PipelineSpec {
  if (pipeline.spec.ok) return pipeline.spec.spec
  throw new Refusal(422, `pipeline ${pipeline.key} has an invalid spec: see its condition Ready`)
}
