// Runs of a DataFlowCron from its Jobs, and the next step of each. Pure. A run is the Job of the processor and the Jobs of the triggers that
// follow it one after the other. Its result is noted on the processor's Job, so that triggers which are added later do not start for it.
import { createHash } from 'node:crypto'
import { controllerOf, isTerminating, type KubeObject, textAt } from '@brokkr/kube'
import { label } from '../names.ts'
import { findJobEnd } from './jobs.ts'

export const resultAnnotation = 'dataflow.dataflow.io/run-result'

export interface CronRun {
  readonly id: string
  readonly job: KubeObject
  readonly phase: 'RunningProcessor' | 'RunningTriggers' | 'Completed' | 'Failed'
  /** -1: the processor. */
  readonly index: number
  readonly activeJob: string | undefined
  /** Trigger to start now. */
  readonly startTrigger: number | undefined
  /** The result is not noted yet. */
  readonly isNew: boolean
  readonly startedAt: string
  readonly endedAt: string | undefined
  readonly message: string
  /** Why its next trigger cannot start; it is tried again. */
  readonly refusal?: string
}

export const toRunId = (job: KubeObject): string =>
  createHash('sha256')
    .update(job.metadata.uid ?? '')
    .digest('hex')
    .slice(0, 8)

/** The oldest first. Jobs that the CronJob does not control are of someone else, whatever their labels; without the CronJob no Job is known. */
export function listRuns(jobs: readonly KubeObject[], triggersCount: number, cronJobUid: string | undefined): CronRun[] {
  const isOf = (job: KubeObject, uid: string | undefined): boolean => uid !== undefined && controllerOf(job)?.uid === uid
  const processors = jobs.filter(
    (job) => job.metadata.labels?.[label.triggerIndex] === 'processor' && isOf(job, cronJobUid) && !isTerminating(job),
  )
  const runs = processors.map((job) =>
    toRun(
      job,
      jobs.filter((each) => isOf(each, job.metadata.uid)),
      triggersCount,
    ),
  )
  return runs.toSorted((left, right) =>
    left.startedAt === right.startedAt ? compare(left.id, right.id) : compare(left.startedAt, right.startedAt),
  )
}

const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)

function toRun(job: KubeObject, jobs: readonly KubeObject[], triggersCount: number): CronRun {
  const id = toRunId(job)
  const startedAt = job.metadata.creationTimestamp ?? ''
  const result = job.metadata.annotations?.[resultAnnotation]
  const run = { id, job, startedAt, startTrigger: undefined, activeJob: undefined, isNew: result === undefined }
  const ended = (phase: 'Completed' | 'Failed', index: number, by: KubeObject, message: string): CronRun => ({
    ...run,
    phase,
    index,
    endedAt: endOf(by),
    message,
  })
  const end = findJobEnd(job)
  if (result === 'Completed' || result === 'Failed')
    return ended(result, -1, job, `run ${id} has ${result === 'Completed' ? 'ended' : 'failed'}`)
  if (end === 'Failed') return ended('Failed', -1, job, `run ${id}: Job ${job.metadata.name} of the processor failed`)
  if (end === undefined) {
    const message = `run ${id}: the processor runs`
    return { ...run, phase: 'RunningProcessor', index: -1, activeJob: job.metadata.name, endedAt: undefined, message }
  }
  const triggers = indexTriggers(jobs, id)
  let last = job
  for (let index = 0; index < triggersCount; index += 1) {
    const trigger = triggers.get(index)
    const triggerEnd = trigger === undefined ? undefined : findJobEnd(trigger)
    if (triggerEnd === 'Failed')
      return ended('Failed', index, trigger!, `run ${id}: Job ${trigger!.metadata.name} of trigger ${index} failed`)
    if (triggerEnd === undefined) {
      const more = trigger === undefined ? { startTrigger: index } : { activeJob: trigger.metadata.name }
      return { ...run, phase: 'RunningTriggers', index, endedAt: undefined, message: `run ${id}: trigger ${index} runs`, ...more }
    }
    last = trigger!
  }
  return ended('Completed', triggersCount - 1, last, `run ${id} has ended`)
}

/** A trigger index that is no number is ignored. */
function indexTriggers(jobs: readonly KubeObject[], runId: string): ReadonlyMap<number, KubeObject> {
  const found = new Map<number, KubeObject>()
  for (const job of jobs) {
    const { [label.runId]: run, [label.triggerIndex]: index = '' } = job.metadata.labels ?? {}
    if (run === runId && /^\d{1,4}$/.test(index)) found.set(Number(index), job)
  }
  return found
}

const endOf = (job: KubeObject): string | undefined =>
  textAt(job, 'status', 'completionTime') ??
  (job.status?.['conditions'] as { type?: string; lastTransitionTime?: string }[] | undefined)?.find(({ type }) => type === 'Failed')
    ?.lastTransitionTime
