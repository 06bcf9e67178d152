// Small schemas that Pipeline and Promotion share. Limits are part of the schema, so that the API server can bound the cost of rules.
import { z } from 'zod'
import { parseDuration } from '../dataflow/fields/duration.ts'

export const PIPELINE = { apiVersion: 'pipelines.weave.works/v1alpha1', kind: 'Pipeline' } as const
export const PROMOTION = { apiVersion: 'pipelines.brokkr.io/v1alpha1', kind: 'Promotion' } as const
export const GITOPS_CLUSTER = { apiVersion: 'gitops.weave.works/v1alpha1', kind: 'GitopsCluster' } as const

export const FIELD_MANAGER = 'brokkr-pipelines'
export const HOLD_ANNOTATION = 'pipelines.brokkr.io/hold'
export const REQUESTED_AT_ANNOTATION = 'reconcile.fluxcd.io/requestedAt'
export const PROMOTION_LABELS = {
  pipeline: 'pipelines.brokkr.io/pipeline',
  environment: 'pipelines.brokkr.io/environment',
  run: 'pipelines.brokkr.io/run',
} as const

export const objectName = z.string().min(1).max(253)
export const environmentName = z.string().regex(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/)
export const revisionText = z.string().min(1).max(1024)

/** `90s`, `30m`, `24h`, `1h30m`. */
export const durationText = z
  .string()
  .max(64)
  .regex(/^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s|m|h))+$/)

/** RFC 3339 in UTC. */
export const timestamp = z.string().meta({ format: 'date-time' })
export const count = z.int().min(0).max(1_000_000_000)

/** Milliseconds of a duration that the schema has accepted; `fallback` when it is absent. */
export function durationMs(text: string | undefined, fallback: string): number {
  return parseDuration(text ?? fallback) ?? parseDuration(fallback) ?? 0
}

export const secretRef = z.object({ name: objectName })

/** A condition in the form of Kubernetes; messages are cut by the writer. */
export const Condition = z.object({
  type: z.string().max(316),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().max(1024),
  message: z.string().max(32_768),
  observedGeneration: count.optional(),
  lastTransitionTime: timestamp,
})
export type Condition = z.output<typeof Condition>

/** What started a run. The actor is a subject of the approval rules: `user:…`, `key:…`. */
export const Cause = z.object({
  kind: z.enum(['detected', 'webhook', 'manual', 'rollback']),
  actor: z.string().max(1024).optional(),
  /** Hashes of caller with Idempotency-Key, and of the order, of the request that started the run: its repetition finds the same run. */
  request: z.string().max(64).optional(),
})
export type Cause = z.output<typeof Cause>
