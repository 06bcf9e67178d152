// Agents: one per cluster. Schema, types and the endpoints of the record itself; labels and annotations are in
// agent-marks.ts, what reaches an agent in agent-reach.ts.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import {
  AgentId,
  AnnotationKey,
  AnnotationValue,
  byId,
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
  /** What the agent says of itself: local policy, preset, capabilities. */
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
  summary: 'Agents by name; filters must all hold',
  query: z.object({ name: z.string().optional(), status: z.string().optional(), ...markQuery, ...deletedQuery, ...pageQuery }),
  success: 200,
  response: z.array(Agent),
  errors: ['generator_required', 'invalid_cursor'],
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

export const searchAgent = endpoint({
  method: 'GET',
  path: '/api/v1/agents/',
  summary: 'The agent of this name in this cluster; both are needed',
  query: z.object({ name: z.string().optional(), cluster_name: z.string().optional() }),
  success: 200,
  response: Agent,
  errors: ['name_and_cluster_required', 'agent_not_found', 'agent_pak_mismatch'],
})

export const getAgent = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}',
  summary: 'One agent',
  params,
  query: z.object(deletedQuery),
  success: 200,
  response: Agent,
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const updateAgent = endpoint({
  method: 'PUT',
  path: '/api/v1/agents/{id}',
  summary: 'Change name, cluster or status; whatever else is sent is ignored',
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
  summary: 'Delete an agent: its key dies, nothing is removed in its cluster. An unknown one counts as deleted',
  params,
  success: 204,
})

export const rotateAgentPak = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/rotate-pak',
  summary: 'Give an agent a new key; the old one dies. An agent may send the hash of a key it made itself, then none is shown',
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
  summary: 'The agent is alive; what it knows of its cluster. With Prefer: return=representation its record comes back',
  params,
  body: Heartbeat,
  bodyKind: 'optional',
  success: 204,
  other: { status: 200, response: z.object({ agent: Agent, labels: z.array(AgentLabel), annotations: z.array(AgentAnnotation) }) },
  errors: ['agent_pak_mismatch'],
})
