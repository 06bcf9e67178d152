// Phase, message and conditions of a flow. Pure. Observations of the processors come from `observedStatus`.

import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { DataFlowStatus } from '@brokkr/contract/dataflow/status.ts'
import {
  type Condition,
  type ConditionNews,
  type KubeObject,
  numberAt,
  rowsAt,
  selectorOf,
  setCondition,
  textAt,
  timeText,
} from '@brokkr/kube'
import { buildLabels, type Owner } from '../names.ts'
import type { MaintenanceState } from './maintenance.ts'
import { type ObservedStatus, observedStatus } from './observed-status.ts'

/** The first failure of a pass, in the order of its steps. */
export type PassFailure =
  | { readonly at: 'valid'; readonly message: string }
  | { readonly at: 'resolved'; readonly reason: 'ResolutionFailed' | 'NotShared'; readonly message: string }
  | { readonly at: 'applied'; readonly reason: 'NameTaken' | 'ApplyFailed'; readonly message: string }

export interface StatusInput {
  readonly object: Owner
  readonly before: DataFlowStatus
  readonly failure: PassFailure | undefined
  readonly wanted: { readonly count: number; readonly stopped: string | undefined }
  readonly specHash: string | undefined
  readonly deployment: KubeObject | undefined
  readonly pods: readonly KubeObject[]
  /** Of the processors that answered at `answersAtMs`. */
  readonly answers: readonly Progress[]
  readonly answersAtMs: number
  /** Undefined without two observations. */
  readonly processedPerSecond?: number | undefined
  readonly maintenance: MaintenanceState
  readonly oneShots: DataFlowStatus['oneShots']
  readonly nowMs: number
}

const unavailableMs = 10 * 60_000
const blockedMs = 60_000
/** An observation of unchanged values is written so often, so that idle flows cause no writes. */
const observedAtMs = 5 * 60_000

export function judgeFlow(input: StatusInput): DataFlowStatus {
  const { object, before, failure, wanted, nowMs } = input
  const generation = object.metadata.generation ?? 0
  const readiness = judgeDeployment(input)
  const observed = observe(input)
  let conditions: readonly Condition[] = observed.conditions
  const set = (news: Omit<ConditionNews, 'observedGeneration'>): void => {
    conditions = setCondition(conditions, { ...news, observedGeneration: generation }, nowMs)
  }
  set(failure?.at === 'valid' ? no('SpecValid', 'Invalid', failure.message) : yes('SpecValid', 'Valid'))
  if (failure?.at !== 'valid')
    set(failure?.at === 'resolved' ? no('SpecResolved', failure.reason, failure.message) : yes('SpecResolved', 'Resolved'))
  set(failure?.at === 'applied' ? no('ProcessorDeploymentReady', failure.reason, failure.message) : readiness.condition)
  if (wanted.count === 0) set({ type: 'Flowing', status: 'Unknown', reason: 'NotRunning', message: wanted.stopped ?? '' })
  const { phase, message } = judgePhase(input, observed, readiness)
  set(phase === 'Running' ? yes('Ready', 'Running') : no('Ready', phase === 'Pending' ? 'NotReady' : phase, message))
  const { conditions: _observed, ...values } = observed
  return {
    ...values,
    ...withoutUndefined({ specHash: input.specHash ?? before.specHash, oneShots: input.oneShots ?? before.oneShots }),
    phase,
    message,
    observedGeneration: generation,
    replicas: numberAt(input.deployment, 'status', 'replicas') ?? 0,
    selector: selectorOf(buildLabels(object)),
    maintenanceStatus: toMaintenanceStatus(input.maintenance),
    conditions: [...conditions],
  }
}

const yes = (type: string, reason: string, message = ''): ConditionNews => ({ type, status: 'True', reason, message })
const no = (type: string, reason: string, message: string): ConditionNews => ({ type, status: 'False', reason, message })

/** A stopped flow has no processor that could answer, so its values are not stale. */
function observe({ before, answers, answersAtMs, processedPerSecond, wanted, nowMs }: StatusInput): ObservedStatus {
  const { phase: _phase, message: _message, maintenanceStatus: _windows, replicas: _replicas, selector: _selector, ...kept } = before
  const previous = { ...kept, conditions: (before.conditions ?? []) as Condition[] } as ObservedStatus
  if (wanted.count === 0) {
    const { blocked: _blocked, processedPerSecond: _rate, ...rest } = previous
    return rest
  }
  const next = observedStatus(previous, answers, answers.length > 0 ? answersAtMs : nowMs)
  return answers.length === 0 ? next : keepTime(previous, { ...next, ...(processedPerSecond === undefined ? {} : { processedPerSecond }) })
}

/** Keeps the time of the last written observation while nothing else differs. */
function keepTime(before: ObservedStatus, next: ObservedStatus): ObservedStatus {
  if (before.progress === undefined || next.progress === undefined) return next
  const isRecent = Date.parse(next.progress.observedAt) - Date.parse(before.progress.observedAt) < observedAtMs
  const timeless = ({ progress, ...values }: ObservedStatus) =>
    JSON.stringify([values, progress?.pod, progress?.version, progress?.stale], sortKeys)
  if (!isRecent || timeless(before) !== timeless(next)) return next
  return { ...next, progress: { ...next.progress, observedAt: before.progress.observedAt } }
}

const sortKeys = (_key: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1)))
    : value

interface Readiness {
  readonly ready: number
  readonly condition: ConditionNews
  /** Why no processor is ready and none will be soon. */
  readonly problem: string | undefined
}

/** Pods of another spec do not count. */
function countReady({ deployment, wanted, specHash, before }: StatusInput): number {
  if (deployment === undefined) return 0
  const isBehind = (numberAt(deployment, 'status', 'observedGeneration') ?? 0) < (deployment.metadata.generation ?? 0)
  if (isBehind && specHash !== before.specHash) return 0
  return Math.min(numberAt(deployment, 'status', 'readyReplicas') ?? 0, wanted.count)
}

function judgeDeployment(input: StatusInput): Readiness {
  const { before, deployment, wanted, pods, nowMs } = input
  const type = 'ProcessorDeploymentReady'
  const ready = countReady(input)
  const count = `${ready}/${wanted.count} processors ready`
  if (wanted.count === 0) return { ready: 0, condition: no(type, 'DeploymentScaledToZero', wanted.stopped ?? ''), problem: undefined }
  if (deployment === undefined) return { ready: 0, condition: no(type, 'DeploymentNotFound', count), problem: undefined }
  if (ready >= 1) return { ready, condition: yes(type, 'DeploymentReady', count), problem: undefined }
  const old = before.conditions?.find((condition) => condition.type === type)
  const sinceMs = old?.status === 'False' && before.phase !== 'Stopped' ? Date.parse(old.lastTransitionTime) : nowMs
  const waiting = findWaitingReason(pods)
  const isLate = nowMs - sinceMs >= unavailableMs
  if (!isLate && waiting !== 'CrashLoopBackOff') return { ready, condition: no(type, 'DeploymentStarting', count), problem: undefined }
  const problem = `${count}${waiting === undefined ? ' for 10 minutes' : `: ${waiting}`}; see the pods of Deployment ${deployment.metadata.name}`
  return { ready, condition: no(type, 'DeploymentUnavailable', problem), problem }
}

const findWaitingReason = (pods: readonly KubeObject[]): string | undefined =>
  pods.flatMap((pod) => rowsAt(pod, 'status', 'containerStatuses').map((row) => textAt(row, 'state', 'waiting', 'reason'))).find(Boolean)

function judgePhase(input: StatusInput, { blocked }: ObservedStatus, readiness: Readiness): { phase: string; message: string } {
  const { failure, wanted, nowMs } = input
  if (wanted.stopped === 'being deleted') return { phase: 'Stopped', message: wanted.stopped }
  if (failure !== undefined) return { phase: 'Error', message: failure.message }
  if (wanted.stopped !== undefined) return { phase: 'Stopped', message: wanted.stopped }
  if (blocked !== undefined && nowMs - Date.parse(blocked.since) >= blockedMs)
    return { phase: 'Error', message: `${blocked.stage} ${blocked.connector}: ${blocked.message}` }
  if (readiness.problem !== undefined) return { phase: 'Error', message: readiness.problem }
  const message = `${readiness.ready}/${wanted.count} processors ready`
  return { phase: readiness.ready >= 1 ? 'Running' : 'Pending', message }
}

export const toMaintenanceStatus = ({ isSuspended, untilMs, nextMs, lastMs }: MaintenanceState): DataFlowStatus['maintenanceStatus'] => ({
  inMaintenance: isSuspended || untilMs !== undefined,
  suspended: isSuspended,
  ...(nextMs === undefined ? {} : { nextMaintenanceTime: timeText(nextMs) }),
  ...(lastMs === undefined ? {} : { lastMaintenanceTime: timeText(lastMs) }),
})

const withoutUndefined = <T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never

/** When the judgement can change without any event; undefined: not. */
export function findNextChangeMs(
  status: Pick<DataFlowStatus, 'blocked' | 'phase'>,
  maintenance: MaintenanceState,
  nowMs: number,
): number | undefined {
  const blockedAt = status.blocked === undefined || status.phase === 'Error' ? [] : [Date.parse(status.blocked.since) + blockedMs]
  const edges = [maintenance.untilMs, maintenance.nextMs].filter((edge) => edge !== undefined)
  const times = [...blockedAt, ...edges].map((at) => at - nowMs).filter((ms) => ms > 0)
  return times.length === 0 ? undefined : Math.min(...times)
}

/** A status that this version cannot read counts as empty. */
export function readStatus(object: KubeObject): DataFlowStatus {
  const parsed = DataFlowStatus.safeParse(object.status ?? {})
  return parsed.success ? parsed.data : {}
}
