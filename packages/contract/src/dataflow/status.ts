// Status of a DataFlow and a DataFlowCron. Every number is an observation; a number that was not observed is absent.
import { z } from 'zod'
import { Blocked, Counters, LagReport } from './progress.ts'

const Condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string(),
  message: z.string(),
  observedGeneration: z.int().optional(),
  lastTransitionTime: z.string(),
})

/** One-shots that the operator has passed on, so that an object that is applied again repeats none. */
export const SeenOneShots = z.object({
  /** Id of the last value of spec.checkpointReset. */
  resetField: z.string().optional(),
  /** Id of the last value of the annotation. */
  resetAnnotation: z.string().optional(),
  /** `rewind:<id>`, `replay:<id>`, `run:<id>`; the newest last. */
  ids: z.array(z.string()).optional(),
})
export type SeenOneShots = z.output<typeof SeenOneShots>

const ProgressSource = z.object({ observedAt: z.string(), pod: z.string(), version: z.string(), stale: z.boolean() })

const observed = {
  phase: z.string().optional(),
  message: z.string().optional(),
  observedGeneration: z.int().optional(),
  specHash: z.string().optional(),
  ...z.object(Counters.shape).partial().shape,
  /** Messages per second between the last two observations. */
  processedPerSecond: z.number().optional(),
  position: z.string().optional(),
  lag: LagReport.optional(),
  blocked: Blocked.optional(),
  progress: ProgressSource.optional(),
  appliedReset: z.string().optional(),
  appliedRewind: z.string().optional(),
  oneShots: SeenOneShots.optional(),
  conditions: z.array(Condition).optional(),
}

const MaintenanceStatus = z.object({
  inMaintenance: z.boolean(),
  nextMaintenanceTime: z.string().optional(),
  lastMaintenanceTime: z.string().optional(),
  suspended: z.boolean(),
})

export const DataFlowStatus = z.object({
  ...observed,
  replicas: z.int().optional(),
  selector: z.string().optional(),
  maintenanceStatus: MaintenanceStatus.optional(),
})
export type DataFlowStatus = z.output<typeof DataFlowStatus>

export const DataFlowCronStatus = z.object({
  ...observed,
  lastScheduleTime: z.string().optional(),
  currentRunID: z.string().optional(),
  /** -1: the processor. */
  currentTriggerIndex: z.int().optional(),
  activeJobName: z.string().optional(),
  lastSuccessfulTime: z.string().optional(),
  lastFailedTime: z.string().optional(),
  maintenanceStatus: MaintenanceStatus.optional(),
})
export type DataFlowCronStatus = z.output<typeof DataFlowCronStatus>
