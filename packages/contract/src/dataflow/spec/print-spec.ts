// Prints a normalized flow as a spec: config shape with all defaults. The text reads as the same flow, so the processor starts from the
// text that the operator hashed and validates it by the same rules.

import { printFields } from '../fields/read-fields.ts'
import { cronFields, errorsFields, flowFields } from './flow-fields.ts'
import { printSink, printSource } from './read-connector.ts'
import { printTransformation } from './read-transformation.ts'
import type { ErrorsSink, Flow } from './types.ts'

export function printSpec(flow: Flow): Record<string, unknown> {
  return {
    source: printSource(flow.source),
    sink: printSink(flow.sink),
    transformations: flow.transformations.map(printTransformation),
    ...(flow.errors === undefined ? {} : { errors: printErrors(flow.errors) }),
    ...printFields(flowFields, { ...flow }),
    ...(flow.cron === undefined ? {} : printFields(cronFields, flow.cron)),
  }
}

/** Unique text per flow: keys are in the order of the field tables. */
export const specText = (flow: Flow): string => JSON.stringify(printSpec(flow))

const printErrors = ({ sink, ...values }: ErrorsSink): Record<string, unknown> => ({
  ...printSink(sink),
  ...printFields(errorsFields, values),
})
