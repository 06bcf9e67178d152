// The spec of a Pipeline (`pipelines.weave.works/v1alpha1`). The CRD is generated from these schemas; validate.ts applies them, and the
// rules that a schema cannot hold, to objects stored under an older schema.
import { z } from 'zod'
import { count, durationText, environmentName, objectName } from './fields.ts'
import { Approval, PromotionPolicy } from './strategy.ts'

export const AppRef = z.object({
  apiVersion: z.string().min(1).max(316),
  kind: z.string().min(1).max(63),
  name: objectName,
  /** Where the revision is read when the kind's own rule does not fit. */
  revisionFrom: z
    .object({
      /** Dotted path to a string. */
      path: z.string().min(1).max(512).optional(),
      /** Container of a workload. */
      container: z.string().min(1).max(63).optional(),
      /** Label of a workload. */
      label: z.string().min(1).max(317).optional(),
      /** Index of a source of an Application with several. */
      source: z.int().min(0).max(100).optional(),
    })
    .optional(),
})
export type AppRef = z.output<typeof AppRef>

export const ClusterRef = z.object({
  /** Unused; kept because the public schema has it. */
  apiVersion: z.string().max(316).optional(),
  kind: z.enum(['GitopsCluster']),
  name: objectName,
  namespace: z.string().max(63).optional(),
})
export type ClusterRef = z.output<typeof ClusterRef>

export const Target = z.object({
  /** Where the application is read; empty: the Pipeline's namespace. */
  namespace: z.string().max(63),
  clusterRef: ClusterRef.optional(),
  /** Stack name for the stack adapter; default `{namespace}-{appRef.name}`. */
  stack: z.string().min(1).max(253).optional(),
})
export type Target = z.output<typeof Target>

/** A freeze window; `start` is local time in `timezone`. */
export const Window = z.object({
  name: z.string().min(1).max(253),
  kind: z.enum(['Allow', 'Deny']),
  start: z.string().regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$/),
  duration: durationText,
  rrule: z.string().min(1).max(512).optional(),
  exdates: z
    .array(z.string().regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$/))
    .max(366)
    .optional(),
  timezone: z.string().min(1).max(64).optional(),
})
export type Window = z.output<typeof Window>

export const Environment = z.object({
  name: environmentName,
  targets: z.array(Target).max(500),
  /** Replaces spec.promotion as a whole for promotions into this environment. */
  promotion: PromotionPolicy.optional(),
  approval: Approval.optional(),
  windows: z.array(Window).max(50).optional(),
})
export type Environment = z.output<typeof Environment>

export const Policy = z.object({
  trigger: z.enum(['Watch', 'Webhook']).optional(),
  settle: z.enum(['Now', 'Once']).optional(),
  soak: durationText.optional(),
  supersede: z.enum(['Close', 'Update', 'Queue']).optional(),
  hotfix: z.enum(['Overwrite', 'Protect']).optional(),
  hold: z.boolean().optional(),
  attempts: count.optional(),
  attemptAge: durationText.optional(),
  deadline: durationText.optional(),
  /** Terminal promotions kept per environment. */
  history: z.int().min(1).max(1000).optional(),
})
export type Policy = z.output<typeof Policy>

export const PipelineSpec = z.object({
  appRef: AppRef,
  environments: z
    .array(Environment)
    .min(1)
    .max(50)
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] }),
  promotion: PromotionPolicy.optional(),
  suspend: z.boolean().optional(),
  policy: Policy.optional(),
})
export type PipelineSpec = z.output<typeof PipelineSpec>
