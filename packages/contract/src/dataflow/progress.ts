// What a processor says about itself under /progress: the observed part of a flow's status, without payloads. The operator copies it.
import { z } from 'zod'

export const Blocked = z.object({
  since: z.string(),
  stage: z.enum(['source', 'transform', 'sink', 'errors']),
  connector: z.string(),
  errorType: z.string(),
  message: z.string(),
  /** Blank where no message is at fault; else the text that `skip` takes. */
  position: z.string(),
})
export type Blocked = z.output<typeof Blocked>

/** A part that a source cannot know is absent, never 0. */
export const LagReport = z.object({
  messages: z.number().optional(),
  seconds: z.number().optional(),
  bytes: z.number().optional(),
})
export type LagReport = z.output<typeof LagReport>

const state = z.object({ status: z.enum(['True', 'False', 'Unknown']), reason: z.string(), message: z.string() })

export const Counters = z.object({
  /** Messages read, re-reads included. */
  readCount: z.number(),
  /** Messages that ended and lie in the committed prefix: ended written + droppedCount + errorCount. */
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
  /** Happenings for events, newest last; each has a number that only grows. */
  notices: z.array(z.object({ id: z.number(), reason: z.string(), message: z.string() })),
})
export type Progress = z.output<typeof Progress>
