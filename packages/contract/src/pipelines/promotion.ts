// The Promotion record (`pipelines.brokkr.io/v1alpha1`): one revision into one environment, the unit of audit, approval and retry.
// Its spec never changes; its status holds progress, attempts, effect and decisions.
import { z } from 'zod'
import { Cause, Condition, count, durationText, environmentName, objectName, revisionText, timestamp } from './fields.ts'
import { pullRequestStates } from './pipeline-status.ts'
import { Approval, Strategy } from './strategy.ts'

export const openPhases = ['Pending', 'AwaitingApproval', 'Queued', 'Running', 'Applied', 'Verifying', 'Blocked'] as const
export const terminalPhases = ['Succeeded', 'Failed', 'Errored', 'Rejected', 'Expired', 'Abandoned', 'Superseded', 'Aborted'] as const
export const phases = [...openPhases, ...terminalPhases] as const
export type Phase = (typeof phases)[number]
export type TerminalPhase = (typeof terminalPhases)[number]

export const isTerminal = (phase: Phase): phase is TerminalPhase => (terminalPhases as readonly Phase[]).includes(phase)

export const failureClasses = ['transient', 'rate-limited', 'configuration', 'refusal'] as const
export type FailureClass = (typeof failureClasses)[number]

export const PromotionSpec = z
  .object({
    pipelineRef: z.object({ name: objectName, uid: z.string().min(1).max(128) }),
    run: z.int().min(1).max(1_000_000_000),
    environment: environmentName,
    revision: revisionText,
    series: z.int().min(1).max(1_000_000),
    /** Idempotency key, derived from pipeline UID, environment, run and series. It travels with every effect. */
    key: z.string().regex(/^[a-z2-7]{20}$/),
    previousRevisions: z.array(z.string().max(1024)).max(500).optional(),
    cause: Cause,
    strategy: Strategy,
    /** Present: the gate must open before the first attempt. */
    approval: Approval.optional(),
    supersede: z.enum(['Close', 'Update', 'Queue']),
    deadline: durationText.optional(),
    attempts: count,
    attemptAge: durationText,
    soak: durationText,
  })
  .meta({ 'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'the spec of a Promotion is immutable' }] })
export type PromotionSpec = z.output<typeof PromotionSpec>

export const Attempt = z.object({
  number: count,
  startedAt: timestamp,
  endedAt: timestamp.optional(),
  outcome: z.enum(['running', 'succeeded', 'failed', 'stopped']),
  class: z.enum(failureClasses).optional(),
  message: z.string().max(4096).optional(),
})
export type Attempt = z.output<typeof Attempt>

/** What became visible outside our records. Every field is written after the effect that it describes. */
export const Effect = z.object({
  kind: z.enum(['pull-request', 'notification', 'stack', 'none']).optional(),
  branch: z.string().max(512).optional(),
  baseSha: z.string().max(64).optional(),
  commitSha: z.string().max(64).optional(),
  files: z.array(z.string().max(4096)).max(1000).optional(),
  prNumber: count.optional(),
  prUrl: z.string().max(2048).optional(),
  prState: z.enum(pullRequestStates).optional(),
  mergedSha: z.string().max(64).optional(),
  /** When the controller began to close the pull request: it was not abandoned by a person. */
  withdrawnAt: timestamp.optional(),
  eventName: z.string().max(253).optional(),
  deliveredAt: timestamp.optional(),
  deploymentObjectIds: z.array(z.string().max(64)).max(500).optional(),
})
export type Effect = z.output<typeof Effect>

/** One decision per subject; a changed mind replaces the entry until the gate opens. */
export const Decision = z.object({
  /** `user:{name}` or `key:{namespace}/{secret}`. */
  subject: z.string().min(1).max(1024),
  groups: z.array(z.string().max(512)).max(100).optional(),
  decision: z.enum(['approve', 'reject']),
  at: timestamp,
  message: z.string().max(4096).optional(),
  /** Channel: `hook` (signed by a key) or `api` (a person). */
  via: z.string().max(63).optional(),
  /** Key of the promotion that the subject saw. */
  key: z.string().max(64),
})
export type Decision = z.output<typeof Decision>

/** A user's request that the leader executes: who and when. */
export const UserRequest = z.object({ subject: z.string().min(1).max(1024), at: timestamp })
export type UserRequest = z.output<typeof UserRequest>

export const PromotionStatus = z.object({
  phase: z.enum(phases).optional(),
  phaseSince: timestamp.optional(),
  reason: z.string().max(253).optional(),
  message: z.string().max(20_000).optional(),
  supersededBy: z.string().max(253).optional(),
  conditions: z
    .array(Condition)
    .max(32)
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] })
    .optional(),
  observed: z
    .object({
      targets: count,
      onRevision: count,
      ready: count,
      firstReadyAt: timestamp.optional(),
      soakUntil: timestamp.optional(),
    })
    .optional(),
  attempts: z.array(Attempt).max(10).optional(),
  attemptCount: count.optional(),
  firstAttemptAt: timestamp.optional(),
  nextAttemptAt: timestamp.optional(),
  /** Leader that wrote last. A smaller epoch of the same Lease never overwrites a larger one; a new Lease counts from the start. */
  lease: z.object({ holder: z.string().max(253), epoch: count, uid: z.string().max(64).optional() }).optional(),
  effect: Effect.optional(),
  /** What the strategy read when it was blocked; a difference ends the block. */
  blockedOn: z.object({ secretVersion: z.string().max(128).optional(), baseSha: z.string().max(64).optional() }).optional(),
  approvals: z
    .array(Decision)
    .max(200)
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['subject'] })
    .optional(),
  abort: UserRequest.optional(),
  retry: UserRequest.optional(),
})
export type PromotionStatus = z.output<typeof PromotionStatus>
