// One entry of `transformations`, compiled: its transform with the rules that apply to all transforms. A false `when` passes the message
// on; a payload that is not JSON passes or fails, as `onNonJson` says.
import { compileCondition, usesPayload } from '@brokkr/contract/dataflow/language/compile-condition.ts'
import type { Condition } from '@brokkr/contract/dataflow/language/condition.ts'
import type { PatternEngine } from '@brokkr/contract/dataflow/language/patterns.ts'
import type { TransformType } from '@brokkr/contract/dataflow/spec/transforms.ts'
import type { Transformation } from '@brokkr/contract/dataflow/spec/types.ts'
import { getPayload, isEmpty, type Message } from '../../message/message.ts'
import { transforms } from '../../transforms/index.ts'
import { type DropReason, type Step, type Transform, TransformError } from '../../transforms/transform.ts'

export interface CompiledStep {
  readonly index: number
  readonly type: TransformType
  readonly dropReason: DropReason
  /** Whether its `when` is true for a message. */
  applies(message: Message): boolean
  readonly run: Step
}

export function compileStep(transformation: Transformation, index: number, deps: { readonly patterns: PatternEngine }): CompiledStep {
  const { type, when, onNonJson } = transformation
  const transform = transforms[type] as Transform<TransformType>
  const build = transform.build(transformation.config, deps)
  const inner =
    transform.takesNonJson === true && onNonJson === 'pass'
      ? rejectDeepPayloads(type, build)
      : guardNonJson(type, onNonJson, transform, build)
  const applies = when === undefined ? () => true : compileWhen(when, deps.patterns)
  const run = when === undefined ? inner : runWhen(type, applies, inner)
  return { index, type, dropReason: transform.dropReason ?? 'filter', applies, run }
}

function runWhen(type: TransformType, applies: (message: Message) => boolean, step: Step): Step {
  return (message, context) => {
    const isDue = applies(message)
    if (message.state === 'deep') throw createDepthError(type)
    return isDue ? step(message, context) : [message]
  }
}

function compileWhen(when: Condition, patterns: PatternEngine): (message: Message) => boolean {
  const holds = compileCondition(when, patterns)
  if (!usesPayload(when.root)) return (message) => holds(undefined, message.metadata)
  return (message) => holds(getPayload(message), message.metadata)
}

/** Fails on a payload that is nested too deep: passing it on would bypass a mask. */
function rejectDeepPayloads(type: TransformType, step: Step): Step {
  return (message, context) => {
    const outputs = step(message, context)
    if (message.state === 'deep') throw createDepthError(type)
    return outputs
  }
}

const createDepthError = (type: TransformType): TransformError => new TransformError(type, '$', 'is nested too deep', 'too_deep')

function guardNonJson(type: TransformType, onNonJson: 'pass' | 'error', transform: Transform<TransformType>, step: Step): Step {
  return (message, context) => {
    if (getPayload(message) !== undefined) return step(message, context)
    if (message.state === 'deep') throw createDepthError(type)
    // A message without a value has no content to check: tombstones pass every step that does not handle them.
    if (isEmpty(message)) return transform.takesNonJson === true ? step(message, context) : [message]
    if (onNonJson === 'error') throw new TransformError(type, '$', 'is not JSON', 'not_json')
    return [message]
  }
}
