// A route of a router: a condition and the sink for matching messages.
import { z } from 'zod'
import type { Sink } from '../connectors/index.ts'
import { child, isMap, type Kind, optional, refuse, refuseType, required, type SpecLocation, standard } from '../fields/field.ts'
import { choice, text } from '../fields/kinds.ts'
import { condition } from '../fields/kinds-language.ts'
import { duration } from '../fields/kinds-number.ts'
import { printFields, readFields } from '../fields/read-fields.ts'
import type { Condition } from '../language/condition.ts'
import { connectorSchema, printSink, readSink } from './read-connector.ts'

export interface Route {
  /** Index of its router among the transformations, and its index there; identifies the route of a message. */
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
    const parsedRoute: Route = { id: at.keys.filter((key) => typeof key === 'number').join('.'), ...values, sink }
    at.report.places.set(parsedRoute, at.path)
    return parsedRoute
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

const readRouteSink = (value: unknown, at: SpecLocation): Sink | undefined =>
  value === undefined || value === null ? refuse(at, 'V1', 'is required') : readSink(value, at)
