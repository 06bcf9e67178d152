// Response of a processor's /progress: the observed part of a flow's status, without payloads. The operator copies it.
import { z } from 'zod'

export const Blocked = z.object({
  since: z.string(),
  stage: z.enum(['source', 'transform', 'sink', 'errors']),
  connector: z.string(),
  errorType: z.string(),
  message: z.string(),
  /** Empty if no message is at fault; else the text that `skip` accepts. */
  position: z.string(),
})
export type Blocked = z.output<typeof Blocked>

/** A part that a source cannot measure is absent, never 0. */
export const LagReport = z.object({
  messages: z.number().optional(),
  seconds: z.number().optional(),
  bytes: z.number().optional(),
})
export type LagReport = z.output<typeof LagReport>

/** Conditions that a source can report. */
export const sourceConditionTypes = ['OverlapNarrowed'] as const
export type SourceConditionType = (typeof sourceConditionTypes)[number]

const state = z.object({ status: z.enum(['True', 'False', 'Unknown']), reason: z.string(), message: z.string() })

export const Counters = z.object({
  /** Messages read, including repeated reads. */
  readCount: z.number(),
  /** Messages in the committed prefix: written + droppedCount + errorCount. */
  processedCount: z.number(),
  /** Records that main and route sinks acknowledged. */
  writtenCount: z.number(),
  droppedCount: z.number(),
  errorCount: z.number(),
  countersSince: z.string(),
  lastProcessedTime: z.string().optional(),
})
export type Counters = z.output<typeof Counters>

export const Progress = Counters.extend({
  pod: z.string(),
  version: z.string(),
  isReady: z.boolean(),
  specHash: z.string(),
  position: z.string(),
  lag: LagReport,
  blocked: Blocked.optional(),
  flowing: state,
  exactlyOnce: state,
  openMessages: z.number(),
  openBytes: z.number(),
  appliedReset: z.string().optional(),
  appliedRewind: z.string().optional(),
  /** Active source conditions; each becomes a condition of the flow with status True. */
  sourceConditions: z.array(z.object({ type: z.string(), message: z.string() })).optional(),
  /** Occurrences for events, newest last; ids only grow. */
  notices: z.array(z.object({ id: z.number(), reason: z.string(), message: z.string() })),
})
export type Progress = z.output<typeof Progress>
