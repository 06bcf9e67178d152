// Agents: schemas and the endpoints of the agent itself. Labels and annotations are in labels.ts, targets in
// targeting/agent-targets.ts.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import {
  AgentId,
  AnnotationKey,
  AnnotationValue,
  byId,
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
  /** Reported by the agent: local policy, preset, capabilities. */
  facts: z.record(z.string(), z.unknown()).nullable(),
})
export type Agent = z.output<typeof Agent>

export const AgentLabel = z.object({ id: Uuid, agent_id: AgentId, label: Label })
export type AgentLabel = z.output<typeof AgentLabel>
export const AgentAnnotation = z.object({ id: Uuid, agent_id: AgentId, key: AnnotationKey, value: AnnotationValue })
export type AgentAnnotation = z.output<typeof AgentAnnotation>
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
  facts: z.record(z.string(), z.unknown()).nullable().optional(),
})
export type Heartbeat = z.output<typeof Heartbeat>

const params = byId(AgentId)

export const listAgents = endpoint({
  method: 'GET',
  path: '/api/v1/agents',
  summary: 'List agents by name; all filters must match',
  query: z.object({ name: z.string().optional(), status: z.string().optional(), ...labelFilterQuery, ...deletedQuery, ...pageQuery }),
  success: 200,
  response: z.array(Agent),
  errors: ['generator_required', 'invalid_cursor'],
})

export const createAgent = endpoint({
  method: 'POST',
  path: '/api/v1/agents',
  summary: 'Create an agent; the response is the only one that contains its PAK',
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
  errors: ['invalid_agent', 'invalid_generator_id', 'invalid_label', 'invalid_annotation', 'unique_violation', 'limit_exceeded'],
})

export const searchAgent = endpoint({
  method: 'GET',
  path: '/api/v1/agents/',
  summary: 'Find an agent by name and cluster; both parameters are required',
  query: z.object({ name: z.string().optional(), cluster_name: z.string().optional() }),
  success: 200,
  response: Agent,
  errors: ['name_and_cluster_required', 'agent_not_found', 'agent_pak_mismatch'],
})

export const getAgent = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}',
  summary: 'Read an agent',
  params,
  query: z.object(deletedQuery),
  success: 200,
  response: Agent,
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const updateAgent = endpoint({
  method: 'PUT',
  path: '/api/v1/agents/{id}',
  summary: 'Change name, cluster or status; other fields are ignored',
  params,
  body: z.object({ name: z.string().optional(), cluster_name: z.string().optional(), status: z.string().optional() }),
  bodyKind: 'lenient',
  success: 200,
  response: Agent,
  errors: ['agent_not_found', 'agent_pak_mismatch', 'invalid_agent', 'unique_violation', 'precondition_failed'],
})

export const deleteAgent = endpoint({
  method: 'DELETE',
  path: '/api/v1/agents/{id}',
  summary: 'Delete an agent and revoke its PAK; nothing is removed from its cluster. Deleting an unknown agent succeeds',
  params,
  success: 204,
})

export const rotateAgentPak = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/rotate-pak',
  summary:
    'Replace the PAK of an agent and revoke the old one. If the caller sends the hash of a PAK that it generated, the response contains none',
  params,
  body: z.object({ short_token: z.string().optional(), pak_hash: z.string().optional() }),
  bodyKind: 'optional',
  success: 200,
  response: z.object({ agent: Agent, pak: z.string().nullable() }),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'unique_violation'],
})

export const recordHeartbeat = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/heartbeat',
  summary: 'Record a heartbeat with facts about the cluster. With Prefer: return=representation, return the agent',
  params,
  body: Heartbeat,
  bodyKind: 'optional',
  success: 204,
  other: { status: 200, response: z.object({ agent: Agent, labels: z.array(AgentLabel), annotations: z.array(AgentAnnotation) }) },
  errors: ['agent_pak_mismatch'],
})
