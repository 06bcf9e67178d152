// Agents: one per cluster. Schema, types and endpoints of the noun together.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentId, AnnotationKey, AnnotationValue, byId, GeneratorId, Label, rowTimes, StackId, Timestamp, Uuid } from './wire.ts'

export const Agent = z.object({
  id: AgentId,
  name: z.string(),
  cluster_name: z.string(),
  status: z.string(),
  last_heartbeat: Timestamp.nullable(),
  k8s_reachable: z.boolean().nullable(),
  k8s_api_latency_ms: z.int32().nullable(),
  k8s_reported_at: Timestamp.nullable(),
  ...rowTimes,
  connection_state: z.enum(['connected', 'disconnected', 'never']),
  last_seen_at: Timestamp.nullable(),
  agent_version: z.string().nullable(),
})
export type Agent = z.output<typeof Agent>

export const AgentLabel = z.object({ id: Uuid, agent_id: AgentId, label: Label })
export const AgentAnnotation = z.object({ id: Uuid, agent_id: AgentId, key: AnnotationKey, value: AnnotationValue })
export const AgentTarget = z.object({
  id: Uuid,
  agent_id: AgentId,
  stack_id: StackId,
  reasons: z.array(z.enum(['explicit', 'label', 'annotation'])),
})
export type AgentTarget = z.output<typeof AgentTarget>
export const Registration = z.object({ id: Uuid, agent_id: AgentId, generator_id: GeneratorId, registered_at: Timestamp })
export type Registration = z.output<typeof Registration>

export const Heartbeat = z.object({
  k8s_reachable: z.boolean().nullable().optional(),
  k8s_api_latency_ms: z.int32().nullable().optional(),
  agent_version: z.string().max(64).nullable().optional(),
  k8s_version: z.string().max(64).nullable().optional(),
})
export type Heartbeat = z.output<typeof Heartbeat>

const params = byId(AgentId)

export const listAgents = endpoint({
  method: 'GET',
  path: '/api/v1/agents',
  summary: 'Agents by name',
  query: z.object({ name: z.string().optional() }),
  success: 200,
  response: z.array(Agent),
  errors: ['generator_required'],
})

export const createAgent = endpoint({
  method: 'POST',
  path: '/api/v1/agents',
  summary: 'Create an agent; its key is shown once, here',
  body: z.object({
    name: z.string(),
    cluster_name: z.string(),
    generator_ids: z.array(GeneratorId).max(1000).optional(),
    labels: z.array(Label).max(256).optional(),
    annotations: z.record(AnnotationKey, AnnotationValue).optional(),
    status: z.string().optional(),
  }),
  success: 201,
  response: z.object({ agent: Agent, initial_pak: z.string() }),
  errors: ['invalid_agent', 'invalid_generator_id', 'unique_violation'],
})

export const getAgent = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}',
  summary: 'One agent',
  params,
  success: 200,
  response: Agent,
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const agentsListLabels = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/labels',
  summary: 'Labels of an agent, oldest first',
  params,
  success: 200,
  response: z.array(AgentLabel),
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const agentsAddLabel = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/labels',
  summary: 'Label an agent; stacks with the same label reach it',
  params,
  body: z.object({ agent_id: AgentId, label: Label }),
  success: 201,
  response: AgentLabel,
  errors: ['agent_id_mismatch', 'invalid_label', 'unique_violation', 'foreign_key_violation', 'limit_exceeded'],
})

export const agentsRemoveLabel = endpoint({
  method: 'DELETE',
  path: '/api/v1/agents/{id}/labels/{label}',
  summary: 'Take a label off an agent',
  params: z.object({ id: AgentId, label: Label }),
  success: 204,
  errors: ['agent_label_not_found'],
})

export const listTargets = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/targets',
  summary: 'Stacks that reach an agent, and why',
  params,
  query: z.object({ reason: z.enum(['explicit', 'label', 'annotation', 'all']).default('explicit') }),
  success: 200,
  response: z.array(AgentTarget),
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const addTarget = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/targets',
  summary: 'Aim a stack at an agent',
  params,
  body: z.object({ agent_id: AgentId, stack_id: StackId }),
  success: 201,
  response: AgentTarget,
  errors: [
    'stack_not_found',
    'target_generator_mismatch',
    'target_create_denied',
    'agent_not_registered',
    'agent_id_mismatch',
    'unique_violation',
    'limit_exceeded',
  ],
})

export const removeTarget = endpoint({
  method: 'DELETE',
  path: '/api/v1/agents/{id}/targets/{stack_id}',
  summary: 'Stop aiming a stack at an agent',
  params: z.object({ id: AgentId, stack_id: StackId }),
  success: 204,
  errors: ['stack_not_found', 'agent_target_not_found', 'target_generator_mismatch', 'target_create_denied', 'agent_not_registered'],
})

export const recordHeartbeat = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/heartbeat',
  summary: 'The agent is alive; what it knows of its cluster',
  params,
  body: Heartbeat,
  bodyKind: 'optional',
  success: 204,
  errors: ['agent_pak_mismatch'],
})
