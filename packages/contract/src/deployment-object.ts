// Deployment objects: immutable revisions of a stack's manifests. A deletion marker asks agents to remove what the
// stack deployed.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentId, byId, DeploymentObjectId, deletedQuery, pageQuery, rowTimes, StackId, Timestamp } from './wire.ts'

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

/** An item of the polled list: the object, and what its stack says of it. */
export const TargetStateItem = DeploymentObject.extend({
  stack_name: z.string(),
  rev: z.int(),
  drift: z.enum(['heal', 'report', 'off']),
})
export type TargetStateItem = z.output<typeof TargetStateItem>

/** What a submission would do, compared with the revision the stack wants now. */
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
  summary: 'Submit the text of an earlier revision again, as the next one',
  params: byId(StackId),
  body: z.object({
    sequence_id: z.int().nullable().optional(),
    deployment_object_id: DeploymentObjectId.nullable().optional(),
    expected_sequence_id: z.int().nullable().optional(),
    reason: z.string().max(1024).nullable().optional(),
  }),
  success: 201,
  response: DeploymentObject,
  errors: ['stack_not_found', 'stack_not_owned', 'deployment_object_not_found', 'stack_moved', 'rollback_to_marker'],
})

export const createDeploymentObject = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/deployment-objects',
  summary: 'Submit the next revision of a stack, as JSON or as raw YAML; with dry_run only tell what it would change',
  params: byId(StackId),
  query: z.object({
    deletion_marker: z.boolean().default(false),
    expected_sequence_id: z.int().optional(),
    dry_run: z.boolean().default(false),
  }),
  body: NewDeploymentObject,
  bodyKind: 'manifest',
  success: 201,
  response: DeploymentObject.extend({ warnings: z.array(z.string()).optional() }),
  other: { status: 200, response: DryRun },
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_deployment_object', 'stack_moved'],
})

export const listDeploymentObjects = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/deployment-objects',
  summary: 'Live revisions of a stack, newest first',
  params: byId(StackId),
  query: z.object({ content: z.boolean().default(true), ...deletedQuery, ...pageQuery }),
  success: 200,
  response: z.array(DeploymentObject),
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_cursor'],
})

export const getDeploymentObject = endpoint({
  method: 'GET',
  path: '/api/v1/deployment-objects/{id}',
  summary: 'One revision; with Accept: application/yaml its raw text',
  params: byId(DeploymentObjectId),
  query: z.object(deletedQuery),
  success: 200,
  response: DeploymentObject,
  errors: ['deployment_object_not_found', 'generator_not_associated', 'agent_not_associated'],
})

export const getTargetState = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/target-state',
  summary: 'What an agent should run, for agents that poll; never truncated',
  params: byId(AgentId),
  query: z.object({
    mode: z.string().default('incremental'),
    /** The X-Brokkr-Cursor of the list that the poller has: it shows which history he comes from. */
    seen: z.string().optional(),
  }),
  success: 200,
  response: z.array(TargetStateItem),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'bad_cursor'],
})
