// Schemas of both kinds, built from the field tables of the reader. They check types and bounds; rules on several fields, or with better
// messages, are in the reader. No transforms or refinements, so they convert to JSON Schema.
import { z } from 'zod'
import { buildSchema } from '../fields/read-fields.ts'
import { cronFields, errorsFields, flowFields, schedulingFields, transformationFields } from './flow-fields.ts'
import { connectorSchema } from './read-connector.ts'

const transformation = connectorSchema.extend({ when: z.string().optional(), ...buildSchema(transformationFields).shape })

export const DataFlowSpec = buildSchema(flowFields).extend({
  source: connectorSchema,
  sink: connectorSchema,
  transformations: z.array(transformation).optional(),
  errors: connectorSchema.extend(buildSchema(errorsFields).shape).optional(),
  scheduling: buildSchema(schedulingFields).optional(),
})

export const DataFlowCronSpec = DataFlowSpec.extend(buildSchema(cronFields).shape)
