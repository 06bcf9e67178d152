// Stacks: what should run, as a sequence of deployment objects. Schema, types and the endpoints of the record itself; labels
// and annotations are in stack-marks.ts.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { HealthStatus } from './health.ts'
import {
  AgentId,
  AnnotationKey,
  AnnotationValue,
  byId,
  DeploymentObjectId,
  deletedQuery,
  GeneratorId,
  Label,
  markQuery,
  pageQuery,
  rowTimes,
  StackId,
  Timestamp,
  Uuid,
} from './wire.ts'

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

/** How the agents of a stack stand, in counts; from what is kept, never from a look at each pair. */
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

/** How one agent stands to one stack: what it reported, when, and whether it has been heard of lately. */
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
  agents: z.array(AgentStackStatus),
})
export type StackStatus = z.output<typeof StackStatus>

const params = byId(StackId)

export const listStacks = endpoint({
  method: 'GET',
  path: '/api/v1/stacks',
  summary:
    'Stacks by name; filters must all hold, pak_id names a generator and is read from admins. With include=status each carries its counts',
  query: z.object({
    pak_id: GeneratorId.optional(),
    name: z.string().optional(),
    ...markQuery,
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
  errors: ['stack_create_denied', 'stack_generator_mismatch', 'unique_violation', 'foreign_key_violation'],
})

export const getStack = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}',
  summary: 'One stack',
  params,
  query: z.object(deletedQuery),
  success: 200,
  response: Stack,
  errors: ['stack_not_found', 'stack_not_owned'],
})

export const updateStack = endpoint({
  method: 'PUT',
  path: '/api/v1/stacks/{id}',
  summary: 'Change name, description or drift; null and what is left out stay as they are',
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
  errors: ['stack_not_found', 'stack_not_owned'],
})

export const getStackStatus = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/status',
  summary: 'Each agent of a stack: what it reported, at which sequence, and how old that is',
  params,
  success: 200,
  response: StackStatus,
  errors: ['stack_not_found', 'stack_not_owned'],
})
