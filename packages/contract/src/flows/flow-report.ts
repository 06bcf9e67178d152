// The part of a flow's status that an agent reports with the health of its stack, at most 4 KiB. Every number is an observation; one that
// was not observed is absent.
import { z } from 'zod'

const text = z.string().max(4096)
const count = z.number().optional()

/** A part that the source cannot measure is absent, never 0. */
const FlowLag = z.object({ messages: count, seconds: count, bytes: count })

/** The message or connector that stops the flow. */
const FlowBlocked = z.object({
  since: text.optional(),
  stage: text.optional(),
  connector: text.optional(),
  errorType: text.optional(),
  message: text.optional(),
  /** Text that `skip` accepts; empty if no single message is at fault. */
  position: text.optional(),
})

const FlowCondition = z.object({ type: text, status: text, reason: text.optional(), message: text.optional() })

export const FlowReport = z.object({
  /** Absent until the operator has written a status. */
  phase: text.optional(),
  message: text.optional(),
  read: count,
  processed: count,
  written: count,
  dropped: count,
  /** Messages that ended as dead letters. */
  errors: count,
  /** Messages per second between the operator's last two observations. */
  per_second: count,
  lag: FlowLag.optional(),
  blocked: FlowBlocked.optional(),
  position: text.optional(),
  counters_since: text.optional(),
  last_processed_at: text.optional(),
  /** Time of the operator's last observation of the processor. */
  observed_at: text.optional(),
  /** The processor has not answered the operator lately. */
  stale: z.boolean().optional(),
  /** The pause annotation is set. */
  paused: z.boolean().optional(),
  conditions: z.array(FlowCondition).max(32).optional(),
})
export type FlowReport = z.output<typeof FlowReport>
