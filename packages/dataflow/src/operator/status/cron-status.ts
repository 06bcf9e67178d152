// Phase, message and conditions of a DataFlowCron. Pure.
import type { SavedProgress } from '@brokkr/contract/dataflow/checkpoint.ts'
import { DataFlowCronStatus } from '@brokkr/contract/dataflow/status.ts'
import { type Condition, type ConditionNews, type KubeObject, setCondition, textAt } from '@brokkr/kube'
import type { CronRun } from './cron-runs.ts'
import type { PassFailure } from './flow-status.ts'
import { toMaintenanceStatus } from './flow-status.ts'
import type { MaintenanceState } from './maintenance.ts'

export interface CronStatusInput {
  readonly object: KubeObject
  readonly before: DataFlowCronStatus
  readonly failure: PassFailure | undefined
  /** Object of the public operator whose end the migration waits for. */
  readonly migrating: string | undefined
  /** Why the schedule is suspended. */
  readonly stopped: string | undefined
  readonly specHash: string | undefined
  readonly cronJob: KubeObject | undefined
  readonly runs: readonly CronRun[]
  /** Saved by the last run; undefined: unchanged. */
  readonly counters: SavedProgress['counters'] | undefined
  readonly maintenance: MaintenanceState
  readonly oneShots: DataFlowCronStatus['oneShots']
  readonly nowMs: number
}

export function judgeCron(input: CronStatusInput): DataFlowCronStatus {
  const { object, before, failure, migrating, runs, cronJob, nowMs } = input
  const generation = object.metadata.generation ?? 0
  const run = runs.at(-1)
  const { phase, message } = judgePhase(input, run)
  let conditions = (before.conditions ?? []) as readonly Condition[]
  const set = (type: string, isTrue: boolean, reason: string, text = ''): void => {
    const news: ConditionNews = { type, status: isTrue ? 'True' : 'False', reason, message: text, observedGeneration: generation }
    conditions = setCondition(conditions, news, nowMs)
  }
  const isInvalid = failure?.at === 'valid'
  set('SpecValid', !isInvalid, isInvalid ? 'Invalid' : 'Valid', isInvalid ? failure.message : '')
  if (!isInvalid) {
    const isUnresolved = failure?.at === 'resolved'
    set('SpecResolved', !isUnresolved, isUnresolved ? failure.reason : 'Resolved', isUnresolved ? failure.message : '')
  }
  if (failure?.at === 'applied') set('ProcessorDeploymentReady', false, failure.reason, failure.message)
  else conditions = conditions.filter(({ type }) => type !== 'ProcessorDeploymentReady')
  const isRefused = failure === undefined && run?.refusal !== undefined
  if (failure === undefined && migrating !== undefined)
    set('Ready', false, 'Migrating', `waits for the end of ${migrating}, which the public operator left`)
  else
    set(
      'Ready',
      failure === undefined && phase !== 'Failed' && !isRefused,
      failure !== undefined ? 'Error' : isRefused ? 'TriggerRefused' : phase,
      message,
    )
  const lastOf = (wanted: CronRun['phase']) => runs.findLast((each) => each.phase === wanted)?.endedAt
  const { activeJobName: _job, currentRunID: _run, currentTriggerIndex: _index, ...kept } = before
  return {
    ...kept,
    ...input.counters,
    ...defined({
      specHash: input.specHash ?? before.specHash,
      oneShots: input.oneShots ?? before.oneShots,
      lastScheduleTime: textAt(cronJob, 'status', 'lastScheduleTime') ?? before.lastScheduleTime,
      lastSuccessfulTime: lastOf('Completed') ?? before.lastSuccessfulTime,
      lastFailedTime: lastOf('Failed') ?? before.lastFailedTime,
      currentRunID: run?.id ?? before.currentRunID,
      currentTriggerIndex: run?.index ?? before.currentTriggerIndex,
      activeJobName: run?.activeJob,
    }),
    phase,
    message,
    observedGeneration: generation,
    maintenanceStatus: toMaintenanceStatus(input.maintenance),
    conditions: [...conditions] as NonNullable<DataFlowCronStatus['conditions']>,
  }
}

function judgePhase({ failure, stopped, before }: CronStatusInput, run: CronRun | undefined): { phase: string; message: string } {
  const isRunning = run !== undefined && run.endedAt === undefined && run.phase !== 'Completed' && run.phase !== 'Failed'
  if (isRunning) return { phase: run.phase, message: run.message }
  if (failure !== undefined) return { phase: 'Error', message: failure.message }
  if (stopped !== undefined) return { phase: 'Stopped', message: stopped }
  if (run !== undefined) return { phase: run.phase, message: run.message }
  const isPast = before.phase === 'Completed' || before.phase === 'Failed'
  return isPast ? { phase: before.phase!, message: before.message ?? '' } : { phase: 'Pending', message: 'waits for its first run' }
}

const defined = <T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never

export function readCronStatus(object: KubeObject): DataFlowCronStatus {
  const parsed = DataFlowCronStatus.safeParse(object.status ?? {})
  return parsed.success ? parsed.data : {}
}
