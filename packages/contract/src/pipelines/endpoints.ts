// Endpoints of pipelines and promotions. The broker forwards them to the pipelines program; objects are those of Kubernetes.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { pageQuery, Timestamp } from '../wire.ts'

const objectPart = z.record(z.string(), z.unknown())
const text = z.string().min(1).max(253)
/** Names of Kubernetes: labels of lower-case letters, digits and hyphens; that of an object may have several, separated by dots. */
const label = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?'
const byName = z.object({
  namespace: z
    .string()
    .max(63)
    .regex(new RegExp(`^${label}$`), 'is not a name of a Kubernetes namespace'),
  name: z
    .string()
    .max(253)
    .regex(new RegExp(`^${label}(?:\\.${label})*$`), 'is not a name of a Kubernetes object'),
})

export const StoredMetadata = z.object({
  namespace: z.string(),
  name: z.string(),
  uid: z.string(),
  generation: z.int(),
  creationTimestamp: Timestamp,
  annotations: z.record(z.string(), z.string()).optional(),
})

export const StoredPipeline = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: StoredMetadata,
  /** Null: the stored spec is invalid; the condition Ready says why. */
  spec: objectPart.nullable(),
  status: objectPart,
})
export type StoredPipeline = z.output<typeof StoredPipeline>

export const StoredPromotion = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: StoredMetadata,
  spec: objectPart,
  status: objectPart,
})
export type StoredPromotion = z.output<typeof StoredPromotion>

export const listPipelines = endpoint({
  method: 'GET',
  path: '/api/v1/pipelines',
  summary: 'List pipelines, newest first',
  query: z.object({ namespace: text.optional(), ...pageQuery }),
  success: 200,
  response: z.array(StoredPipeline),
  errors: ['invalid_cursor', 'pipelines_unavailable'],
})

export const listPromotions = endpoint({
  method: 'GET',
  path: '/api/v1/promotions',
  summary: 'List promotions, newest first',
  query: z.object({
    namespace: text.optional(),
    pipeline: text.optional(),
    environment: text.optional(),
    phase: text.optional(),
    ...pageQuery,
  }),
  success: 200,
  response: z.array(StoredPromotion),
  errors: ['invalid_cursor', 'pipelines_unavailable'],
})

export const PipelineExplanation = z.object({
  run: objectPart.nullable(),
  trigger: z.string(),
  suspended: z.boolean(),
  held: z.boolean(),
  environments: z.array(
    z.object({
      name: z.string(),
      settledOn: z.string().nullable(),
      predicates: z.record(z.string(), z.boolean()),
      targets: z.array(
        z.object({ presence: z.string(), ready: z.boolean(), revision: z.string().nullable(), error: z.string().nullable() }),
      ),
      promotion: z.object({ name: z.string(), key: z.string(), phase: z.string() }).nullable(),
    }),
  ),
  next: objectPart,
  pending: objectPart.nullable(),
  wakeAt: Timestamp.nullable(),
  diff: z.string().nullable().optional(),
})
export type PipelineExplanation = z.output<typeof PipelineExplanation>

export const explainPipeline = endpoint({
  method: 'GET',
  path: '/api/v1/pipelines/{namespace}/{name}/explain',
  summary: 'Show each target, each condition and the next step of a pipeline',
  params: byName,
  /** `diff`: also the change that the next promotion would commit. */
  query: z.object({ diff: z.boolean().default(false) }),
  success: 200,
  response: PipelineExplanation,
  errors: ['not_found', 'validation_failed', 'pipelines_unavailable'],
})

export const startRun = endpoint({
  method: 'POST',
  path: '/api/v1/pipelines/{namespace}/{name}/runs',
  summary: 'Start a run of a revision; a rollback also holds the pipeline',
  params: byName,
  body: z.object({
    revision: z.string().min(1).max(1024),
    /** Empty or absent: all after the first. */
    environments: z.array(z.string().min(1).max(63)).max(50).optional(),
    kind: z.enum(['manual', 'rollback']),
  }),
  success: 201,
  response: z.object({
    number: z.int(),
    revision: z.string(),
    startedAt: Timestamp,
    cause: z.object({ kind: z.string(), actor: z.string().optional() }),
    scope: z.array(z.string()),
  }),
  errors: ['not_found', 'promotion_conflict', 'validation_failed', 'pipelines_unavailable'],
})

export const decidePromotion = endpoint({
  method: 'POST',
  path: '/api/v1/promotions/{namespace}/{name}/decision',
  summary: 'Approve or reject a promotion that awaits approval; repeating it changes nothing',
  params: byName,
  body: z.object({
    decision: z.enum(['approve', 'reject']),
    /** Key of the promotion that the caller saw. */
    key: z.string().min(1).max(64),
    message: z.string().max(4096).optional(),
  }),
  success: 200,
  response: z.object({ approvals: z.int(), required: z.int() }),
  errors: ['not_found', 'forbidden', 'promotion_conflict', 'validation_failed', 'pipelines_unavailable'],
})

export const retryPromotion = endpoint({
  method: 'POST',
  path: '/api/v1/promotions/{namespace}/{name}/retry',
  summary: 'Retry a promotion: an ended one gets its next series, a blocked one is attempted at once',
  params: byName,
  success: 201,
  response: z.object({ namespace: z.string(), name: z.string(), key: z.string(), series: z.int() }),
  /** A blocked promotion is attempted at once. */
  other: { status: 202, response: z.object({}) },
  errors: ['not_found', 'promotion_conflict', 'pipelines_unavailable'],
})

export const abortPromotion = endpoint({
  method: 'POST',
  path: '/api/v1/promotions/{namespace}/{name}/abort',
  summary: 'Abort a promotion that has not ended',
  params: byName,
  success: 202,
  errors: ['not_found', 'promotion_conflict', 'pipelines_unavailable'],
})
