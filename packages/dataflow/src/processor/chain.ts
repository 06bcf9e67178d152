// All steps of a flow in order: one message in, its records out. A message fails as a whole: its letter holds the source's payload,
// and a replay of it runs the whole chain again.
import type { PatternEngine } from '@brokkr/contract/dataflow/patterns.ts'
import type { TransformType } from '@brokkr/contract/dataflow/transforms.ts'
import type { Transformation } from '@brokkr/contract/dataflow/types.ts'
import { type Message, workingCopy } from './message.ts'
import { type CompiledStep, compileStep } from './step.ts'
import { type DropReason, type StepContext, TransformError } from './transform.ts'

/** More records from one message than this: it is dead-lettered. */
export const recordsMax = 10_000

export type Outcome =
  | { readonly do: 'write'; readonly records: readonly Message[] }
  | { readonly do: 'drop'; readonly reason: DropReason | ReplayDrop }
  | { readonly do: 'fail'; readonly error: TransformError; readonly step: { readonly index: number; readonly type: TransformType } }

/** Of a replay: a letter of another flow, one without its payload. */
export type ReplayDrop = 'foreign' | 'omitted'

export interface StepCounts {
  readonly type: TransformType
  messagesIn: number
  messagesOut: number
  errors: number
  keyCollisions: number
}

export interface Chain {
  /** The message itself is left as it is, so that it can be run again. */
  run(message: Message, nowMs: number): Outcome
  readonly steps: readonly CompiledStep[]
  /** Since the chain was built. */
  readonly counts: readonly StepCounts[]
}

export function buildChain(transformations: readonly Transformation[], deps: { readonly patterns: PatternEngine }): Chain {
  const steps = transformations.map((transformation, index) => compileStep(transformation, index, deps))
  const counts = steps.map(({ type }) => ({ type, messagesIn: 0, messagesOut: 0, errors: 0, keyCollisions: 0 }))
  const drops = { filter: { do: 'drop', reason: 'filter' }, tombstone: { do: 'drop', reason: 'tombstone' } } as const
  const run = (message: Message, nowMs: number): Outcome => {
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
    return records.length <= recordsMax ? { do: 'write', records } : tooMany(steps.at(-1)!)
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

/** Twenty times the records that may leave is what a filter further on may still bring down. */
const betweenMax = 20 * recordsMax

function runEach(step: CompiledStep, records: readonly Message[], context: StepContext): readonly Message[] {
  const outputs: Message[] = []
  for (const record of records) {
    for (const output of step.run(record, context)) outputs.push(output)
    if (outputs.length > betweenMax) throw fanOut(step.type)
  }
  return outputs
}

const fanOut = (type: TransformType): TransformError =>
  new TransformError(type, '$', `more than ${recordsMax} records from one message`, 'fan_out')

const tooMany = ({ index, type }: CompiledStep): Outcome => ({ do: 'fail', error: fanOut(type), step: { index, type } })
