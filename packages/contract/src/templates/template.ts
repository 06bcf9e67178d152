// Stack templates: manifests with parameters, each change a new version.
import { z } from 'zod'
import { DeploymentObject } from '../deployments/deployment-object.ts'
import { endpoint } from '../endpoint.ts'
import { byId, deletedQuery, GeneratorId, pageQuery, rowTimes, StackId, Timestamp, Uuid } from '../wire.ts'

export const StackTemplate = z.object({
  id: Uuid,
  /** null: a system template, usable by every generator. */
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
  summary: 'List system templates and those of the caller, by owner, name and version',
  query: z.object({ name: z.string().optional(), ...deletedQuery, ...pageQuery }),
  success: 200,
  response: z.array(StackTemplate),
  errors: ['templates_not_accessible', 'invalid_cursor'],
})

export const createTemplate = endpoint({
  method: 'POST',
  path: '/api/v1/templates',
  summary: 'Create a template; an existing name creates its next version',
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
  summary: 'Read one version of a template',
  params,
  query: z.object(deletedQuery),
  success: 200,
  response: StackTemplate,
  errors: ['template_not_found', 'template_not_accessible'],
})

export const updateTemplate = endpoint({
  method: 'PUT',
  path: '/api/v1/templates/{id}',
  summary: 'Create the next version of a template, with a new id',
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

/** What a template renders to; nothing is submitted. */
export const RenderedTemplate = z.object({ yaml_content: z.string(), warnings: z.array(z.string()) })
export type RenderedTemplate = z.output<typeof RenderedTemplate>

/** `yaml_content` is null if no parameters were sent. */
export const LintedTemplate = z.object({ yaml_content: z.string().nullable(), warnings: z.array(z.string()) })
export type LintedTemplate = z.output<typeof LintedTemplate>

export const lintTemplate = endpoint({
  method: 'POST',
  path: '/api/v1/templates/lint',
  summary: 'Check the syntax and the schema of a template and, with parameters, what it renders to; nothing is stored',
  body: z.object({ template_content: z.string(), parameters_schema: z.string(), parameters: z.unknown().optional() }),
  bodyKind: 'exact',
  success: 200,
  response: LintedTemplate,
  errors: [
    'templates_not_accessible',
    'invalid_template_syntax',
    'invalid_parameters_schema',
    'invalid_parameters',
    'template_render_failed',
    'invalid_deployment_object',
  ],
})

export const instantiateTemplate = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{stack_id}/deployment-objects/from-template',
  summary: 'Render a template with parameters and submit the result as a deployment object of a stack; with dry_run, return only the text',
  params: z.object({ stack_id: StackId }),
  query: z.object({ dry_run: z.boolean().default(false) }),
  // Parameters of another type get `invalid_parameters`, as those that violate the schema.
  body: z.object({ template_id: Uuid, parameters: z.unknown() }),
  bodyKind: 'exact',
  success: 201,
  response: DeploymentObject,
  other: { status: 200, response: RenderedTemplate },
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

/** Labels and annotations of templates also have a creation time. */
export const TemplateLabel = z.object({ id: Uuid, template_id: Uuid, label: z.string(), created_at: Timestamp })
export const TemplateAnnotation = z.object({ id: Uuid, template_id: Uuid, key: z.string(), value: z.string(), created_at: Timestamp })
