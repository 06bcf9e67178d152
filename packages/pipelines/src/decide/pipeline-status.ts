// The status of a Pipeline, rebuilt on every pass from observation and records. Pure; nothing but `run` is taken over from the status before.
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { EnvironmentStatus, PipelineStatus, Run, TargetStatus } from '@brokkr/contract/pipelines/pipeline-status.ts'
import { describeProblems } from '@brokkr/contract/pipelines/validate.ts'
import { type Condition, type ConditionNews, dropCondition, setCondition, timeText } from '@brokkr/kube'
import { type PipelineRecord, type PromotionRecord, phaseOf } from '../objects.ts'
import type { Pending } from './advance.ts'
import { isDiverged } from './newest.ts'
import { isSettledOn, type ObservedEnvironment, type ObservedTarget, settledRevision } from './observed.ts'

export interface StatusInput {
  readonly pipeline: PipelineRecord
  readonly trigger: 'Watch' | 'Webhook'
  readonly observed: readonly ObservedEnvironment[]
  readonly promotions: readonly PromotionRecord[]
  readonly run: Run | undefined
  readonly pending: Pending | null
  readonly nowMs: number
}

export function buildPipelineStatus(input: StatusInput): PipelineStatus {
  const { pipeline, run } = input
  const { spec } = pipeline.spec.ok ? pipeline.spec : { spec: null }
  const environments =
    spec === null
      ? pipeline.status.environments
      : Object.fromEntries(spec.environments.map(({ name }, index) => [name, environmentStatus(input, spec, index)]))
  return {
    observedGeneration: pipeline.generation,
    conditions: [...conditionsOf(input)],
    ...(environments === undefined ? {} : { environments }),
    ...(run === undefined ? {} : { run }),
  }
}

function conditionsOf(input: StatusInput): readonly Condition[] {
  const { pipeline, nowMs, pending } = input
  const before = (pipeline.status.conditions ?? []) as readonly Condition[]
  const withReady = setCondition(before, { type: 'Ready', observedGeneration: pipeline.generation, ...readyOf(input) }, nowMs)
  if (pending === null || !pipeline.spec.ok) return dropCondition(withReady, 'PromotionPending')
  const news = { type: 'PromotionPending', status: 'True', observedGeneration: pipeline.generation, ...pending } as const
  return setCondition(withReady, news, nowMs)
}

function readyOf({ pipeline, observed, trigger }: StatusInput): Omit<ConditionNews, 'type'> {
  if (!pipeline.spec.ok) return { status: 'False', reason: 'InvalidSpec', message: describeProblems(pipeline.spec.problems) }
  const failing = observed.flatMap(({ targets }) => targets).find(({ problem }) => problem !== null)
  if (failing === undefined) return { status: 'True', reason: 'ReconciliationSucceeded', message: 'all targets were read' }
  const message = failing.error ?? 'a target cannot be read'
  if (trigger === 'Watch') return { status: 'False', reason: 'TargetNotReadable', message }
  return { status: 'False', reason: failing.problem === 'cluster-not-found' ? 'TargetClusterNotFound' : 'TargetClusterNotReady', message }
}

function environmentStatus(input: StatusInput, spec: PipelineSpec, index: number): EnvironmentStatus {
  const { pipeline, promotions, run, nowMs } = input
  const environment = spec.environments[index]!
  const observed = input.observed[index] ?? { name: environment.name, targets: [] }
  const before = pipeline.status.environments?.[environment.name]
  const own = promotions.filter((promotion) => promotion.spec.environment === environment.name)
  const newest = own.toSorted((a, b) => b.spec.run - a.spec.run || b.spec.series - a.spec.series)[0]
  const awaiting = own.find((promotion) => phaseOf(promotion) === 'AwaitingApproval')
  const settled = run !== undefined && isSettledOn(observed, run.revision)
  const isSameRun = pipeline.status.run?.number === run?.number
  const settledAt = isSameRun && before?.settledAt !== undefined ? before.settledAt : settled ? timeText(nowMs) : undefined
  const latest = index === 0 ? (settledRevision(observed) ?? before?.latestRevision) : undefined
  return {
    waitingApproval: { revision: awaiting?.spec.revision ?? '' },
    targets: environment.targets.map((_target, at) => targetStatus(input, spec, index, at)),
    ...(newest === undefined ? {} : { promotion: mirrorOf(newest) }),
    ...(settledAt === undefined ? {} : { settledAt }),
    ...(isDiverged(promotions, observed) ? { diverged: true } : {}),
    ...(latest === undefined ? {} : { latestRevision: latest }),
  }
}

function targetStatus({ pipeline, observed, nowMs }: StatusInput, spec: PipelineSpec, index: number, at: number): TargetStatus {
  const target = spec.environments[index]!.targets[at]!
  const seen: ObservedTarget | undefined = observed[index]?.targets[at]
  const { apiVersion, kind, name } = spec.appRef
  return {
    clusterAppRef: { apiVersion, kind, name, ...(target.clusterRef ? { clusterRef: target.clusterRef } : {}) },
    ready: seen?.ready ?? false,
    ...(seen?.revision ? { revision: seen.revision } : {}),
    ...(seen?.error ? { error: seen.error.slice(0, 20_000) } : {}),
    namespace: target.namespace || pipeline.namespace,
    observedAt: timeText(nowMs),
  }
}

const PULL_STATES = { open: 'open', mergeable: 'mergeable', merged: 'merged', abandoned: 'abandoned' } as const

function mirrorOf(promotion: PromotionRecord): EnvironmentStatus['promotion'] {
  const { status, spec, name } = promotion
  const lastAttemptedTime = status.attempts?.at(-1)?.startedAt
  const url = status.effect?.prUrl
  const phase = phaseOf(promotion)
  return {
    name,
    revision: spec.revision,
    phase,
    succeeded: phase === 'Succeeded',
    ...(lastAttemptedTime === undefined ? {} : { lastAttemptedTime }),
    ...(url === undefined ? {} : { pullRequest: { url, state: PULL_STATES[status.effect?.prState ?? 'open'] } }),
  }
}

const OBSERVED_AT_MS = 5 * 60_000

/** Whether the status is written: `changed`; `older`: only `observedAt` differs, and it is old; null: it is recent, so nothing is written. */
export function compareStatus(before: PipelineStatus, next: PipelineStatus, nowMs: number): 'changed' | 'older' | null {
  if (JSON.stringify(withoutTimes(sortKeys(before))) !== JSON.stringify(withoutTimes(sortKeys(next)))) return 'changed'
  const times = Object.values(before.environments ?? {}).flatMap(({ targets = [] }) =>
    targets.map(({ observedAt }) => Date.parse(observedAt ?? '')),
  )
  return times.some((time) => !(nowMs - time < OBSERVED_AT_MS)) ? 'older' : null
}

const withoutTimes = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (key, item: unknown) => (key === 'observedAt' ? undefined : item)))

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sortKeys(item)]),
  )
}
