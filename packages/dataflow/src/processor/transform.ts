// What every transform is: a type and a way to build, from its configuration, a step that turns one message into none, one or many.
// Steps are pure: no clock, no log, no I/O; what they need comes with the message and the context.
import type { PatternEngine } from '@brokkr/contract/dataflow/patterns.ts'
import type { TransformConfig, TransformType } from '@brokkr/contract/dataflow/transforms.ts'
import type { Message } from './message.ts'

export interface StepContext {
  /** The time of processing, in milliseconds since 1970; fractions are kept. */
  readonly nowMs: number
  /** Counts up when two keys of an object become one. */
  keyCollisions: number
}

/** A message that is owned is given up to the step; one that is not is left as it was. Throws TransformError. */
export type Step = (message: Message, context: StepContext) => readonly Message[]

export type DropReason = 'filter' | 'tombstone'

export interface Transform<T extends TransformType> {
  readonly type: T
  build(config: TransformConfig<T>, deps: { readonly patterns: PatternEngine }): Step
  /** Why a message without outputs was dropped; absent where that cannot be. */
  readonly dropReason?: DropReason
  /** Judges payloads that are no JSON by itself. */
  readonly takesNonJson?: boolean
}

/** Paths and types, never values: this text reaches letters and logs. */
export class TransformError extends Error {
  override name = 'TransformError'
  readonly code: 'transform' | 'not_json' | 'too_deep' | 'fan_out'
  constructor(type: string, path: string, reason: string, code: TransformError['code'] = 'transform') {
    super(`${type}: ${path}: ${reason}`)
    this.code = code
  }
}

export const dropped: readonly Message[] = []
