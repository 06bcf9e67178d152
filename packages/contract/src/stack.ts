// Stacks: what should run, as a sequence of deployment objects. Schema, types and endpoints of the noun together.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import {
  AgentId,
  AnnotationKey,
  AnnotationValue,
  byId,
  DeploymentObjectId,
  GeneratorId,
  Label,
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

export const StackLabel = z.object({ id: Uuid, stack_id: StackId, label: Label })

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
  summary: 'Stacks by name',
  query: z.object({ name: z.string().optional() }),
  success: 200,
  response: z.array(Stack),
  errors: ['stacks_list_denied'],
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
  success: 200,
  response: Stack,
  errors: ['stack_not_found', 'stack_not_owned'],
})

export const deleteStack = endpoint({
  method: 'DELETE',
  path: '/api/v1/stacks/{id}',
  summary: 'Delete a stack; agents remove what it deployed and confirm',
  params,
  success: 204,
  errors: ['stack_not_found', 'stack_not_owned'],
})

export const stacksListLabels = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/labels',
  summary: 'Labels of a stack, oldest first',
  params,
  success: 200,
  response: z.array(StackLabel),
  errors: ['stack_not_found', 'stack_not_accessible'],
})

export const stacksAddLabel = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/labels',
  summary: 'Label a stack; agents with the same label take it. The body is a bare JSON string',
  params,
  body: Label,
  success: 201,
  response: StackLabel,
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_label', 'unique_violation', 'limit_exceeded'],
})

export const stacksRemoveLabel = endpoint({
  method: 'DELETE',
  path: '/api/v1/stacks/{id}/labels/{label}',
  summary: 'Take a label off a stack',
  params: z.object({ id: StackId, label: Label }),
  success: 204,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_label_not_found'],
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
