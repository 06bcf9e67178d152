// A route of a router: a condition and the sink for what it matches.
import { z } from 'zod'
import type { Condition } from './condition.ts'
import type { Sink } from './connectors/index.ts'
import { child, isMap, type Kind, optional, type Place, refuse, refuseType, required, standard } from './field.ts'
import { choice, text } from './kinds.ts'
import { condition } from './kinds-language.ts'
import { duration } from './kinds-number.ts'
import { connectorSchema, printSink, readSink } from './read-connector.ts'
import { printFields, readFields } from './read-fields.ts'

export interface Route {
  /** Index of its router among the transformations, and its own within that: what a message is marked with. */
  readonly id: string
  readonly condition: Condition
  readonly sink: Sink
  readonly name: string | undefined
  readonly onUnavailable: 'block' | 'deadLetter'
  readonly afterMs: number
}

const fields = {
  condition: required(condition),
  name: optional(text),
  onUnavailable: standard(choice(['block', 'deadLetter']), 'block'),
  afterMs: standard(duration(), 300_000, { from: 'after' }),
}

export const route: Kind<Route> = {
  read: (value, at) => {
    if (!isMap(value)) return refuseType(at, 'map', value)
    const values = readFields(fields, value, at, ['sink'])
    const sink = readRouteSink(value['sink'], child(at, 'sink'))
    if (values === undefined || sink === undefined) return undefined
    const read: Route = { id: at.keys.filter((key) => typeof key === 'number').join('.'), ...values, sink }
    at.report.places.set(read, at.path)
    return read
  },
  print: ({ id: _id, sink, ...values }) => ({ ...printFields(fields, values), sink: printSink(sink) }),
  schema: z.looseObject({
    condition: z.string().optional(),
    name: z.string().optional(),
    onUnavailable: z.string().optional(),
    after: z.string().optional(),
    sink: connectorSchema.optional(),
  }),
}

const readRouteSink = (value: unknown, at: Place): Sink | undefined =>
  value === undefined || value === null ? refuse(at, 'V1', 'is required') : readSink(value, at)
