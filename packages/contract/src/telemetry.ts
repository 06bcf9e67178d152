// Telemetry: Kubernetes events and log lines of what a stack deployed, kept for hours.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentId, byId, StackId, Timestamp, Uuid } from './wire.ts'

export const RetentionInfo = z.object({
  retention_ceiling_seconds: z.int(),
  effective_retention_seconds: z.int(),
  oldest_available_ts: Timestamp.nullable(),
  long_term_sink_hint: z.string(),
})

export const AgentK8sEvent = z.object({
  id: Uuid,
  agent_id: AgentId,
  stack_id: StackId,
  observed_at: Timestamp,
  reason: z.string(),
  message: z.string(),
  event_type: z.string(),
  source: z.string().nullable(),
  involved_object: z.object({
    api_version: z.string(),
    kind: z.string(),
    namespace: z.string().nullable(),
    name: z.string(),
    uid: z.string().nullable(),
  }),
  created_at: Timestamp,
})

export const AgentPodLog = z.object({
  id: Uuid,
  agent_id: AgentId,
  stack_id: StackId,
  namespace: z.string(),
  pod: z.string(),
  container: z.string(),
  ts: Timestamp,
  line: z.string(),
  created_at: Timestamp,
})

/** A limit out of range is drawn into it. */
const query = z.object({ since: Timestamp.optional(), limit: z.int().default(500) })

export const listTelemetryEvents = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/events',
  summary: 'Kubernetes events of what a stack deployed, newest first',
  params: byId(StackId),
  query,
  success: 200,
  response: z.object({ retention: RetentionInfo, events: z.array(AgentK8sEvent) }),
  errors: ['stack_not_found', 'stack_not_owned'],
})

export const listTelemetryLogs = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/logs',
  summary: 'Log lines of what a stack deployed, newest first',
  params: byId(StackId),
  query,
  success: 200,
  response: z.object({ retention: RetentionInfo, lines: z.array(AgentPodLog) }),
  errors: ['stack_not_found', 'stack_not_owned'],
})
