// All transformations of a flow in order: one message in, its records out. A message fails as a whole: its dead letter contains the
// source's payload, and a replay runs the whole chain again.
import type { PatternEngine } from '@brokkr/contract/dataflow/language/patterns.ts'
import type { TransformType } from '@brokkr/contract/dataflow/spec/transforms.ts'
import type { Transformation } from '@brokkr/contract/dataflow/spec/types.ts'
import { type Message, workingCopy } from '../../message/message.ts'
import { type DropReason, type StepContext, TransformError } from '../../transforms/transform.ts'
import { type CompiledStep, compileStep } from './step.ts'

/** A message that becomes more records than this is dead-lettered. */
const maxRecordsPerMessage = 10_000

export type ChainOutcome =
  | { readonly do: 'write'; readonly records: readonly Message[] }
  | { readonly do: 'drop'; readonly reason: DropReason | ReplayDrop }
  | { readonly do: 'fail'; readonly error: TransformError; readonly step: { readonly index: number; readonly type: TransformType } }

/** For a replay: a dead letter of another flow, or one without its payload. */
export type ReplayDrop = 'foreign' | 'omitted'

export interface StepCounts {
  readonly type: TransformType
  messagesIn: number
  messagesOut: number
  errors: number
  keyCollisions: number
}

export interface Chain {
  /** Does not change the message, so that it can be run again. */
  run(message: Message, nowMs: number): ChainOutcome
  readonly steps: readonly CompiledStep[]
  /** Since the chain was built. */
  readonly counts: readonly StepCounts[]
}

export function buildChain(transformations: readonly Transformation[], deps: { readonly patterns: PatternEngine }): Chain {
  const steps = transformations.map((transformation, index) => compileStep(transformation, index, deps))
  const counts = steps.map(({ type }) => ({ type, messagesIn: 0, messagesOut: 0, errors: 0, keyCollisions: 0 }))
  const drops = { filter: { do: 'drop', reason: 'filter' }, tombstone: { do: 'drop', reason: 'tombstone' } } as const
  const run = (message: Message, nowMs: number): ChainOutcome => {
    const context: StepContext = { nowMs, keyCollisions: 0 }
    let records: readonly Message[] = [workingCopy(message)]
    for (const step of steps) {
      const count = counts[step.index]!
      try {
        records = runStep(step, records, context, count)
      } catch (error) {
        if (!(error instanceof TransformError)) throw error
        count.errors += 1
        return { do: 'fail', error, step: { index: step.index, type: step.type } }
      }
      if (records.length === 0) return drops[step.dropReason]
    }
    return records.length <= maxRecordsPerMessage ? { do: 'write', records } : failFanOut(steps.at(-1)!)
  }
  return { run, steps, counts }
}

function runStep(step: CompiledStep, records: readonly Message[], context: StepContext, count: StepCounts): readonly Message[] {
  count.messagesIn += records.length
  const outputs = records.length === 1 ? step.run(records[0]!, context) : runEach(step, records, context)
  count.messagesOut += outputs.length
  count.keyCollisions += context.keyCollisions
  context.keyCollisions = 0
  return outputs
}

/** Limit between two steps; a later filter may reduce the number again. */
const maxIntermediateRecords = 20 * maxRecordsPerMessage

function runEach(step: CompiledStep, records: readonly Message[], context: StepContext): readonly Message[] {
  const outputs: Message[] = []
  for (const record of records) {
    for (const output of step.run(record, context)) outputs.push(output)
    if (outputs.length > maxIntermediateRecords) throw createFanOutError(step.type)
  }
  return outputs
}

const createFanOutError = (type: TransformType): TransformError =>
  new TransformError(type, '$', `more than ${maxRecordsPerMessage} records from one message`, 'fan_out')

const failFanOut = ({ index, type }: CompiledStep): ChainOutcome => ({ do: 'fail', error: createFanOutError(type), step: { index, type } })
