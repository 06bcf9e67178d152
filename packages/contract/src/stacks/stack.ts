// Stacks: schemas and the endpoints of the stack itself. Labels and annotations are in labels.ts.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { HealthStatus } from '../health/deployment-health.ts'
import {
  AgentId,
  AnnotationKey,
  AnnotationValue,
  byId,
  DeploymentObjectId,
  deletedQuery,
  GeneratorId,
  Label,
  labelFilterQuery,
  pageQuery,
  rowTimes,
  StackId,
  Timestamp,
  Uuid,
} from '../wire.ts'

export const Drift = z.enum(['heal', 'report', 'off'])
export type Drift = z.output<typeof Drift>

export const Stack = z.object({
  id: StackId,
  name: z.string(),
  description: z.string().nullable(),
  generator_id: GeneratorId,
  ...rowTimes,
  drift: Drift,
})
export type Stack = z.output<typeof Stack>

/** Counts over the agents of a stack, from stored summaries. */
export const StackSummary = z.object({
  desired_sequence_id: z.int().nullable(),
  agents_total: z.int(),
  agents_current: z.int(),
  agents_failed: z.int(),
  health: HealthStatus,
  drifted: z.int(),
  held: z.boolean(),
  oldest_seen_at: Timestamp.nullable(),
})
export type StackSummary = z.output<typeof StackSummary>

export const ListedStack = Stack.extend({ status: StackSummary.optional() })
export type ListedStack = z.output<typeof ListedStack>

export const StackLabel = z.object({ id: Uuid, stack_id: StackId, label: Label })
export type StackLabel = z.output<typeof StackLabel>
export const StackAnnotation = z.object({ id: Uuid, stack_id: StackId, key: AnnotationKey, value: AnnotationValue })
export type StackAnnotation = z.output<typeof StackAnnotation>

export const Phase = z.enum(['applied', 'pending', 'failed', 'held', 'removed'])
export type Phase = z.output<typeof Phase>

/** Status of one stack on one agent: last report, its time, and whether the agent is stale. */
export const AgentStackStatus = z.object({
  agent_id: AgentId,
  agent_name: z.string(),
  cluster_name: z.string(),
  reasons: z.array(z.string()),
  desired_sequence_id: z.int().nullable(),
  rev: z.int().nullable(),
  sequence_id: z.int().nullable(),
  deployment_object_id: DeploymentObjectId.nullable(),
  phase: Phase.nullable(),
  code: z.string().nullable(),
  message: z.string().nullable(),
  attempts: z.int(),
  retry_at: Timestamp.nullable(),
  health: HealthStatus,
  observed_at: Timestamp.nullable(),
  received_at: Timestamp.nullable(),
  stale: z.boolean(),
})
export type AgentStackStatus = z.output<typeof AgentStackStatus>

export const StackStatus = z.object({
  stack_id: StackId,
  desired_sequence_id: z.int().nullable(),
  /** Null: no hold. */
  held_sequence_id: z.int().nullable(),
  /** Greater than desired_sequence_id while objects wait behind a hold. */
  newest_sequence_id: z.int().nullable(),
  agents: z.array(AgentStackStatus),
})
export type StackStatus = z.output<typeof StackStatus>

const params = byId(StackId)

export const listStacks = endpoint({
  method: 'GET',
  path: '/api/v1/stacks',
  summary:
    'List stacks by name; all filters must match. pak_id filters by generator and is for admins. With include=status, add counts per stack',
  query: z.object({
    pak_id: GeneratorId.optional(),
    name: z.string().optional(),
    /** Part of the name, in any case. */
    search: z.string().max(253).optional(),
    ...labelFilterQuery,
    include: z.enum(['status']).optional(),
    health: HealthStatus.optional(),
    drifted: z.boolean().optional(),
    held: z.boolean().optional(),
    ...deletedQuery,
    ...pageQuery,
  }),
  success: 200,
  response: z.array(ListedStack),
  errors: ['stacks_list_denied', 'invalid_cursor'],
})

export const createStack = endpoint({
  method: 'POST',
  path: '/api/v1/stacks',
  summary: 'Create a stack',
  body: z.object({
    name: z.string(),
    description: z.string().nullable().optional(),
    generator_id: GeneratorId,
    labels: z.array(Label).max(256).optional(),
    annotations: z.record(AnnotationKey, AnnotationValue).optional(),
    drift: Drift.optional(),
  }),
  success: 201,
  response: Stack,
  errors: ['stack_create_denied', 'stack_generator_mismatch', 'unique_violation', 'foreign_key_violation', 'limit_exceeded'],
})

export const getStack = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}',
  summary: 'Read a stack',
  params,
  query: z.object(deletedQuery),
  success: 200,
  response: Stack,
  errors: ['stack_not_found', 'stack_not_owned'],
})

export const updateStack = endpoint({
  method: 'PUT',
  path: '/api/v1/stacks/{id}',
  summary: 'Change name, description or drift handling; null and missing fields stay unchanged',
  params,
  body: z.object({
    id: StackId.nullable().optional(),
    name: z.string().nullable().optional(),
    description: z.string().nullable().optional(),
    drift: Drift.nullable().optional(),
    generator_id: GeneratorId.nullable().optional(),
    deleted_at: z.string().nullable().optional(),
  }),
  success: 200,
  response: Stack,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_id_mismatch', 'immutable_field', 'unique_violation', 'precondition_failed'],
})

export const deleteStack = endpoint({
  method: 'DELETE',
  path: '/api/v1/stacks/{id}',
  summary: 'Delete a stack; agents remove what it deployed and confirm',
  params,
  success: 204,
  errors: ['stack_not_found', 'stack_not_owned', 'hold_not_owned'],
})

export const getStackStatus = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/status',
  summary: 'Read the status of a stack on each agent: last report, sequence number and age',
  params,
  query: z.object(deletedQuery),
  success: 200,
  response: StackStatus,
  errors: ['stack_not_found', 'stack_not_owned'],
})

export const undeleteStack = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/undelete',
  summary: 'Undelete a stack: submit the manifest it had again and restore its targets',
  params,
  body: z.object({}),
  bodyKind: 'optional',
  success: 200,
  response: Stack,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_not_deleted', 'unique_violation', 'generator_deleted'],
})
