// The normal form written down again: the config shape with every default filled in. What is written reads as the same flow, so that
// the processor starts from the very text the operator hashed, and judges it by the same rules.
import { cronFields, errorsFields, flowFields } from './flow-fields.ts'
import { printSink, printSource } from './read-connector.ts'
import { printFields } from './read-fields.ts'
import { printTransformation } from './read-transformation.ts'
import type { ErrorsSink, Flow } from './types.ts'

export function specOf(flow: Flow): Record<string, unknown> {
  return {
    source: printSource(flow.source),
    sink: printSink(flow.sink),
    transformations: flow.transformations.map(printTransformation),
    ...(flow.errors === undefined ? {} : { errors: printErrors(flow.errors) }),
    ...printFields(flowFields, { ...flow }),
    ...(flow.cron === undefined ? {} : printFields(cronFields, flow.cron)),
  }
}

/** One text for one meaning: keys stand in the order of our tables, not in the user's. */
export const specText = (flow: Flow): string => JSON.stringify(specOf(flow))

const printErrors = ({ sink, ...values }: ErrorsSink): Record<string, unknown> => ({
  ...printSink(sink),
  ...printFields(errorsFields, values),
})
