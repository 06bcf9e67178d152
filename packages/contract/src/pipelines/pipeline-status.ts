// The status of a Pipeline. `environments` is a mirror that every pass rebuilds; of all fields only `run` is ever read back as input.
import { z } from 'zod'
import { Cause, Condition, environmentName, timestamp } from './fields.ts'

export const ClusterAppRef = z.object({
  apiVersion: z.string().max(316),
  kind: z.string().max(63),
  name: z.string().max(253),
  clusterRef: z
    .object({
      apiVersion: z.string().max(316).optional(),
      kind: z.string().max(63),
      name: z.string().max(253),
      namespace: z.string().max(63).optional(),
    })
    .optional(),
})

export const TargetStatus = z.object({
  clusterAppRef: ClusterAppRef,
  ready: z.boolean(),
  revision: z.string().max(1024).optional(),
  error: z.string().max(20_000).optional(),
  namespace: z.string().max(63).optional(),
  observedAt: timestamp.optional(),
})
export type TargetStatus = z.output<typeof TargetStatus>

export const pullRequestStates = ['open', 'mergeable', 'merged', 'abandoned'] as const

export const EnvironmentPromotionStatus = z.object({
  name: z.string().max(253).optional(),
  revision: z.string().max(1024).optional(),
  phase: z.string().max(63).optional(),
  lastAttemptedTime: timestamp.optional(),
  succeeded: z.boolean().optional(),
  pullRequest: z.object({ url: z.string().max(2048), state: z.enum(pullRequestStates) }).optional(),
})

export const EnvironmentStatus = z.object({
  waitingApproval: z.object({ revision: z.string().max(1024) }).optional(),
  targets: z.array(TargetStatus).max(500).optional(),
  promotion: EnvironmentPromotionStatus.optional(),
  /** First time that the environment was settled in this run. */
  settledAt: timestamp.optional(),
  /** The targets left the revision that their last Succeeded promotion brought. */
  diverged: z.boolean().optional(),
  /** First environment: the revision on which it last settled. */
  latestRevision: z.string().max(1024).optional(),
})
export type EnvironmentStatus = z.output<typeof EnvironmentStatus>

/** One passage of one revision through the pipeline. */
export const Run = z.object({
  number: z.int().min(1).max(1_000_000_000),
  revision: z.string().max(1024),
  startedAt: timestamp,
  cause: Cause,
  /** Environments of this run; empty or absent: all. */
  scope: z.array(environmentName).max(50).optional(),
  /** Revision of the first environment when a user started the run, if it had a run: it does not replace the run, a later one does. */
  firstRevision: z.string().max(1024).optional(),
})
export type Run = z.output<typeof Run>

export const PipelineStatus = z
  .object({
    observedGeneration: z.int().min(-1).max(1_000_000_000).optional(),
    conditions: z
      .array(Condition)
      .max(32)
      .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] })
      .optional(),
    environments: z.record(z.string(), EnvironmentStatus).optional(),
    run: Run.optional(),
  })
  .meta({ default: { observedGeneration: -1 } })
export type PipelineStatus = z.output<typeof PipelineStatus>
