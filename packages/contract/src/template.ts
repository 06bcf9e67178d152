// Stack templates: manifests with parameters, each change a new version.
import { z } from 'zod'
import { DeploymentObject } from './deployment-object.ts'
import { endpoint } from './endpoint.ts'
import { byId, deletedQuery, GeneratorId, pageQuery, rowTimes, StackId, Timestamp, Uuid } from './wire.ts'

export const StackTemplate = z.object({
  id: Uuid,
  /** null: a template of the system, which everybody may use. */
  generator_id: GeneratorId.nullable(),
  name: z.string(),
  description: z.string().nullable(),
  version: z.int32(),
  template_content: z.string(),
  /** JSON Schema in a string. */
  parameters_schema: z.string(),
  checksum: z.string(),
  ...rowTimes,
})
export type StackTemplate = z.output<typeof StackTemplate>

const params = byId(Uuid)

export const listTemplates = endpoint({
  method: 'GET',
  path: '/api/v1/templates',
  summary: 'Templates of the system and of the caller, by owner, name and version',
  query: z.object({ name: z.string().optional(), ...deletedQuery, ...pageQuery }),
  success: 200,
  response: z.array(StackTemplate),
  errors: ['templates_not_accessible', 'invalid_cursor'],
})

export const createTemplate = endpoint({
  method: 'POST',
  path: '/api/v1/templates',
  summary: 'Create a template; a known name makes its next version',
  body: z.object({
    name: z.string(),
    description: z.string().nullable().optional(),
    template_content: z.string(),
    parameters_schema: z.string(),
  }),
  success: 201,
  response: StackTemplate,
  errors: ['templates_not_accessible', 'invalid_template_syntax', 'invalid_parameters_schema'],
})

export const getTemplate = endpoint({
  method: 'GET',
  path: '/api/v1/templates/{id}',
  summary: 'One version of a template',
  params,
  query: z.object(deletedQuery),
  success: 200,
  response: StackTemplate,
  errors: ['template_not_found', 'template_not_accessible'],
})

export const updateTemplate = endpoint({
  method: 'PUT',
  path: '/api/v1/templates/{id}',
  summary: 'Make the next version of a template, under a new id',
  params,
  body: z.object({ description: z.string().nullable().optional(), template_content: z.string(), parameters_schema: z.string() }),
  success: 200,
  response: StackTemplate,
  errors: ['template_not_found', 'template_not_owned', 'invalid_template_syntax', 'invalid_parameters_schema', 'precondition_failed'],
})

export const deleteTemplate = endpoint({
  method: 'DELETE',
  path: '/api/v1/templates/{id}',
  summary: 'Delete one version of a template',
  params,
  success: 204,
  errors: ['template_not_found', 'template_not_owned'],
})

export const instantiateTemplate = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{stack_id}/deployment-objects/from-template',
  summary: 'Render a template with parameters and submit it as the next revision of a stack',
  params: z.object({ stack_id: StackId }),
  body: z.object({ template_id: Uuid, parameters: z.record(z.string(), z.unknown()) }),
  success: 201,
  response: DeploymentObject,
  errors: [
    'stack_not_found',
    'stack_not_owned',
    'template_not_found',
    'template_not_accessible',
    'template_stack_mismatch',
    'invalid_parameters',
    'template_render_failed',
    'invalid_deployment_object',
  ],
})

/** Marks of templates also say since when. */
export const TemplateLabel = z.object({ id: Uuid, template_id: Uuid, label: z.string(), created_at: Timestamp })
export const TemplateAnnotation = z.object({ id: Uuid, template_id: Uuid, key: z.string(), value: z.string(), created_at: Timestamp })
