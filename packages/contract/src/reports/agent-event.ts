// Agent events: the history of an agent. Status reports (feed/stream.ts) describe the present.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, DeploymentObjectId, deletedQuery, GeneratorId, pageQuery, rowTimes, StackId, Timestamp, Uuid } from '../wire.ts'

const Resource = z.object({
  group: z.string(),
  version: z.string(),
  kind: z.string(),
  namespace: z.string().optional(),
  name: z.string(),
  operation: z.string().optional(),
  result: z.string().optional(),
  error: z.string().optional(),
})
const FieldChange = z.object({
  group: z.string().optional(),
  kind: z.string(),
  namespace: z.string().optional(),
  name: z.string(),
  path: z.string(),
  manager: z.string().nullable().optional(),
  operation: z.string().optional(),
  time: Timestamp.optional(),
})

export const AgentEvent = z.object({
  id: Uuid,
  agent_id: AgentId,
  deployment_object_id: DeploymentObjectId,
  event_type: z.string(),
  status: z.string(),
  message: z.string().nullable(),
  ...rowTimes,
  sequence_id: z.int().nullable(),
  attempt: z.int().nullable(),
  error_code: z.string().nullable(),
  resources: z.array(Resource).nullable(),
  changes: z.array(FieldChange).nullable(),
  occurred_at: Timestamp.nullable(),
})
export type AgentEvent = z.output<typeof AgentEvent>

export const NewAgentEvent = z.object({
  id: Uuid.optional(),
  agent_id: AgentId,
  deployment_object_id: DeploymentObjectId,
  event_type: z.string(),
  status: z.string(),
  message: z.string().nullable().optional(),
  sequence_id: z.int().nullable().optional(),
  attempt: z.int32().nullable().optional(),
  error_code: z.string().nullable().optional(),
  occurred_at: Timestamp.nullable().optional(),
  duration_ms: z.number().nullable().optional(),
  resources: z.array(Resource).max(500).nullable().optional(),
  changes: z.array(FieldChange).max(500).nullable().optional(),
})
export type NewAgentEvent = z.output<typeof NewAgentEvent>

export const listEvents = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/events',
  summary: 'List events of an agent, newest first',
  params: byId(AgentId),
  query: z.object({ ...deletedQuery, ...pageQuery }),
  success: 200,
  response: z.array(AgentEvent),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'invalid_cursor'],
})

export const createEvent = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/events',
  summary: 'Report an event; an id makes the call idempotent',
  params: byId(AgentId),
  body: NewAgentEvent,
  success: 201,
  response: AgentEvent,
  errors: ['agent_id_mismatch', 'agent_not_associated', 'agent_pak_mismatch', 'foreign_key_violation', 'validation_failed'],
})

/** Result of one event of a batch. A rejected event does not affect the others. */
export const EventResult = z.object({ id: Uuid, status: z.enum(['stored', 'duplicate', 'refused']), code: z.string().optional() })
export type EventResult = z.output<typeof EventResult>

export const createEvents = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/events/batch',
  summary: 'Report up to 200 events; ids make the batch idempotent',
  params: byId(AgentId),
  body: z.object({
    events: z
      .array(NewAgentEvent.extend({ id: Uuid }))
      .min(1)
      .max(200),
  }),
  success: 200,
  response: z.object({ results: z.array(EventResult) }),
  errors: ['agent_pak_mismatch'],
})

export const listAgentEvents = endpoint({
  method: 'GET',
  path: '/api/v1/agent-events',
  summary: 'List events of all agents, oldest first; pak_id filters by the generator of the stack',
  query: z.object({
    pak_id: GeneratorId.optional(),
    stack_id: StackId.optional(),
    agent_id: AgentId.optional(),
    event_type: z.string().optional(),
    since: Timestamp.optional(),
    ...deletedQuery,
    ...pageQuery,
  }),
  success: 200,
  response: z.array(AgentEvent),
  errors: ['invalid_cursor'],
})

export const getAgentEvent = endpoint({
  method: 'GET',
  path: '/api/v1/agent-events/{id}',
  summary: 'Read an event',
  params: byId(Uuid),
  query: z.object(deletedQuery),
  success: 200,
  response: AgentEvent,
  errors: ['agent_event_not_found'],
})
