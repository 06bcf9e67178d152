// Interface of a transform: from its configuration it builds a step that turns one message into none, one or many. Steps are pure: no
// clock, log or I/O; all input comes with the message and the context.
import type { PatternEngine } from '@brokkr/contract/dataflow/language/patterns.ts'
import type { TransformConfig, TransformType } from '@brokkr/contract/dataflow/spec/transforms.ts'
import type { Message } from '../message/message.ts'

export interface StepContext {
  /** Time of processing in milliseconds since 1970, with fraction. */
  readonly nowMs: number
  /** Number of keys that were renamed to an existing key. */
  keyCollisions: number
}

/** A step may change an owned message; it leaves others unchanged. Throws TransformError. */
export type Step = (message: Message, context: StepContext) => readonly Message[]

export type DropReason = 'filter' | 'tombstone'

export interface Transform<T extends TransformType> {
  readonly type: T
  build(config: TransformConfig<T>, deps: { readonly patterns: PatternEngine }): Step
  /** Drop reason of a message without outputs; absent if the step never drops. */
  readonly dropReason?: DropReason
  /** The step handles payloads that are not JSON. */
  readonly takesNonJson?: boolean
}

/** Paths and types, never values: the text is written to dead letters and logs. */
export class TransformError extends Error {
  override name = 'TransformError'
  readonly code: 'transform' | 'not_json' | 'too_deep' | 'fan_out'
  constructor(type: string, path: string, reason: string, code: TransformError['code'] = 'transform') {
    super(`${type}: ${path}: ${reason}`)
    this.code = code
  }
}

export const dropped: readonly Message[] = []
