// The written form of both kinds as schemas, made of the same tables that the reader uses. They hold types and bounds; what depends
// on more than one field, or needs a better text, is the reader's. Nothing here transforms or refines, so all of it becomes JSON Schema.
import { z } from 'zod'
import { cronFields, errorsFields, flowFields, schedulingFields, transformationFields } from './flow-fields.ts'
import { connectorSchema } from './read-connector.ts'
import { schemaOf } from './read-fields.ts'

const transformation = connectorSchema.extend({ when: z.string().optional(), ...schemaOf(transformationFields).shape })

export const DataFlowSpec = schemaOf(flowFields).extend({
  source: connectorSchema,
  sink: connectorSchema,
  transformations: z.array(transformation).optional(),
  errors: connectorSchema.extend(schemaOf(errorsFields).shape).optional(),
  scheduling: schemaOf(schedulingFields).optional(),
})

export const DataFlowCronSpec = DataFlowSpec.extend(schemaOf(cronFields).shape)
