// A dead letter: the errors sink stores it for a message or record that could not be written, and a replay reads it.
import { z } from 'zod'

export const LetterStage = z.enum(['source', 'transform', 'sink'])
export type LetterStage = z.output<typeof LetterStage>

export const LetterError = z.object({
  /** Idempotency key: equal for a repeat. */
  id: z.string(),
  /** Paths and types, never values. */
  message: z.string(),
  type: z.string(),
  stage: LetterStage,
  step: z.object({ index: z.number(), type: z.string() }).optional(),
  timestamp: z.string(),
  first_failed_at: z.string(),
  attempts: z.number(),
  original_sink: z.string(),
  route: z.string(),
  flow: z.string(),
  position: z.string(),
  spec_hash: z.string(),
  metadata: z.record(z.string(), z.unknown()),
})
export type LetterError = z.output<typeof LetterError>

/** `original_message` is the source's payload for stage transform and source, the rejected record for stage sink. */
export const DeadLetter = z.object({ error: LetterError, original_message: z.record(z.string(), z.unknown()) })
export type DeadLetter = z.output<typeof DeadLetter>
