// One entry of a flow's transformations, ready to run: its transform behind the rules that hold for all of them. A false `when` leaves
// a message alone; a payload that is no JSON passes or is an error, as the entry says.
import { compileCondition, usesPayload } from '@brokkr/contract/dataflow/compile-condition.ts'
import type { Condition } from '@brokkr/contract/dataflow/condition.ts'
import type { PatternEngine } from '@brokkr/contract/dataflow/patterns.ts'
import type { TransformType } from '@brokkr/contract/dataflow/transforms.ts'
import type { Transformation } from '@brokkr/contract/dataflow/types.ts'
import { isEmpty, type Message, payloadOf } from './message.ts'
import { type DropReason, type Step, type Transform, TransformError } from './transform.ts'
import { transforms } from './transforms/index.ts'

export interface CompiledStep {
  readonly index: number
  readonly type: TransformType
  readonly dropReason: DropReason
  /** Whether its `when` holds for a message. */
  applies(message: Message): boolean
  readonly run: Step
}

export function compileStep(transformation: Transformation, index: number, deps: { readonly patterns: PatternEngine }): CompiledStep {
  const { type, when, onNonJson } = transformation
  const transform = transforms[type] as Transform<TransformType>
  const build = transform.build(transformation.config, deps)
  const inner =
    transform.takesNonJson === true && onNonJson === 'pass' ? refusingDepth(type, build) : guarded(type, onNonJson, transform, build)
  const applies = when === undefined ? () => true : compileWhen(when, deps.patterns)
  const run = when === undefined ? inner : conditional(type, applies, inner)
  return { index, type, dropReason: transform.dropReason ?? 'filter', applies, run }
}

function conditional(type: TransformType, applies: (message: Message) => boolean, step: Step): Step {
  return (message, context) => {
    const isDue = applies(message)
    if (message.state === 'deep') throw tooDeep(type)
    return isDue ? step(message, context) : [message]
  }
}

function compileWhen(when: Condition, patterns: PatternEngine): (message: Message) => boolean {
  const holds = compileCondition(when, patterns)
  if (!usesPayload(when.root)) return (message) => holds(undefined, message.metadata)
  return (message) => holds(payloadOf(message), message.metadata)
}

/** A payload nested beyond all bounds is an error for every step that has to read it: letting it pass would hide it from a mask. */
function refusingDepth(type: TransformType, step: Step): Step {
  return (message, context) => {
    const outputs = step(message, context)
    if (message.state === 'deep') throw tooDeep(type)
    return outputs
  }
}

const tooDeep = (type: TransformType): TransformError => new TransformError(type, '$', 'is nested too deep', 'too_deep')

function guarded(type: TransformType, onNonJson: 'pass' | 'error', transform: Transform<TransformType>, step: Step): Step {
  return (message, context) => {
    if (payloadOf(message) !== undefined) return step(message, context)
    if (message.state === 'deep') throw tooDeep(type)
    // A message without a value has nothing to judge: tombstones pass every step that does not ask for them.
    if (isEmpty(message)) return transform.takesNonJson === true ? step(message, context) : [message]
    if (onNonJson === 'error') throw new TransformError(type, '$', 'is not JSON', 'not_json')
    return [message]
  }
}
