// Deployment objects: immutable submitted versions of a stack's manifest. A deletion marker tells agents to delete everything that
// the stack deployed.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, DeploymentObjectId, deletedQuery, pageQuery, rowTimes, StackId, Timestamp, Uuid } from '../wire.ts'

export const DeploymentObject = z.object({
  id: DeploymentObjectId,
  stack_id: StackId,
  sequence_id: z.int(),
  yaml_content: z.string(),
  yaml_checksum: z.string(),
  is_deletion_marker: z.boolean(),
  submitted_at: Timestamp,
  ...rowTimes,
  rollback_of: DeploymentObjectId.nullable(),
})
export type DeploymentObject = z.output<typeof DeploymentObject>

export const NewDeploymentObject = z.object({ yaml_content: z.string(), is_deletion_marker: z.boolean().default(false) })

/** Item of the list that polling agents read: the deployment object with fields of its stack. */
export const TargetStateItem = DeploymentObject.extend({
  stack_name: z.string(),
  rev: z.int(),
  drift: z.enum(['heal', 'report', 'off']),
})
export type TargetStateItem = z.output<typeof TargetStateItem>

/** Effect of a submission, compared with what the stack wants now. */
export const DryRun = z.object({
  valid: z.boolean(),
  warnings: z.array(z.string()),
  objects: z.array(
    z.object({
      api_version: z.string(),
      kind: z.string(),
      namespace: z.string().nullable(),
      name: z.string(),
      change: z.enum(['added', 'changed', 'unchanged', 'removed']),
    }),
  ),
  agents: z.array(z.object({ agent_id: AgentId, name: z.string(), reasons: z.array(z.string()) })),
})
export type DryRun = z.output<typeof DryRun>

export const rollbackStack = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/rollback',
  summary: 'Submit the manifest of an earlier deployment object again; with hold, later submissions wait until the hold is released',
  params: byId(StackId),
  body: z.object({
    sequence_id: z.int().nullable().optional(),
    deployment_object_id: DeploymentObjectId.nullable().optional(),
    expected_sequence_id: z.int().nullable().optional(),
    reason: z.string().max(1024).nullable().optional(),
    hold: z.boolean().nullable().optional(),
  }),
  success: 201,
  response: DeploymentObject,
  errors: [
    'stack_not_found',
    'stack_not_owned',
    'deployment_object_not_found',
    'stack_moved',
    'rollback_to_marker',
    'stack_held',
    'hold_not_owned',
  ],
})

export const createDeploymentObject = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/deployment-objects',
  summary: 'Submit a deployment object as JSON or raw YAML; with dry_run, return only its effect; with plan_id, only what was planned',
  params: byId(StackId),
  query: z.object({
    deletion_marker: z.boolean().default(false),
    expected_sequence_id: z.int().optional(),
    dry_run: z.boolean().default(false),
    plan_id: Uuid.optional(),
  }),
  body: NewDeploymentObject,
  bodyKind: 'manifest',
  success: 201,
  response: DeploymentObject.extend({ warnings: z.array(z.string()).optional() }),
  other: { status: 200, response: DryRun },
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_deployment_object', 'stack_moved', 'plan_not_found', 'plan_outdated'],
})

export const listDeploymentObjects = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/deployment-objects',
  summary: 'List live deployment objects of a stack, newest first',
  params: byId(StackId),
  query: z.object({ content: z.boolean().default(true), ...deletedQuery, ...pageQuery }),
  success: 200,
  response: z.array(DeploymentObject),
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_cursor'],
})

export const getDeploymentObject = endpoint({
  method: 'GET',
  path: '/api/v1/deployment-objects/{id}',
  summary: 'Read a deployment object; with Accept: application/yaml, its manifest',
  params: byId(DeploymentObjectId),
  query: z.object(deletedQuery),
  success: 200,
  response: DeploymentObject,
  errors: ['deployment_object_not_found', 'generator_not_associated', 'agent_not_associated'],
})

/** Where a deployment object comes from; of a rollback, the rendering of the object that it copies. */
export const Provenance = z.object({
  template_id: Uuid,
  template_version: z.int(),
  parameters: z.record(z.string(), z.unknown()),
  rendered_at: Timestamp,
  rollback_of: DeploymentObjectId.nullable(),
  created_by: z.object({ kind: z.string(), id: z.string().nullable() }),
})
export type Provenance = z.output<typeof Provenance>

export const getProvenance = endpoint({
  method: 'GET',
  path: '/api/v1/deployment-objects/{id}/provenance',
  summary: 'Read the template, version and parameters that a deployment object was rendered from',
  params: byId(DeploymentObjectId),
  success: 200,
  response: Provenance,
  errors: ['deployment_object_not_found', 'generator_not_associated', 'agent_not_associated', 'not_found'],
})

export const getTargetState = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/target-state',
  summary: 'Read the desired state of an agent that polls; never truncated',
  params: byId(AgentId),
  query: z.object({
    mode: z.string().default('incremental'),
    /** X-Brokkr-Cursor of the previous list; it identifies the epoch that the agent followed. */
    seen: z.string().optional(),
  }),
  success: 200,
  response: z.array(TargetStateItem),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'bad_cursor'],
})
