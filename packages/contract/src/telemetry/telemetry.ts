// Telemetry: Kubernetes events and log lines of deployed objects, stored for hours.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, pageQuery, StackId, Timestamp, Uuid } from '../wire.ts'

const RetentionInfo = z.object({
  retention_ceiling_seconds: z.int(),
  effective_retention_seconds: z.int(),
  oldest_available_ts: Timestamp.nullable(),
  long_term_sink_hint: z.string(),
})

const InvolvedObject = z.object({
  api_version: z.string(),
  kind: z.string(),
  namespace: z.string().nullable(),
  name: z.string(),
  uid: z.string().nullable(),
})

/** A Kubernetes event about an object of a stack. */
export const K8sEvent = z.object({
  agent_id: AgentId,
  stack_id: StackId,
  observed_at: Timestamp,
  reason: z.string(),
  message: z.string(),
  event_type: z.string(),
  source: z.string().nullable(),
  involved_object: InvolvedObject,
})
export type K8sEvent = z.output<typeof K8sEvent>

/** A log line of a pod of a stack. */
export const PodLogLine = z.object({
  agent_id: AgentId,
  stack_id: StackId,
  namespace: z.string(),
  pod: z.string(),
  container: z.string(),
  ts: Timestamp,
  line: z.string(),
})
export type PodLogLine = z.output<typeof PodLogLine>

/** Telemetry that was dropped before it reached a reader. */
export const LogGap = z.object({
  agent_id: AgentId,
  stack_id: StackId,
  since_ts: Timestamp,
  dropped_count: z.int().min(0).max(Number.MAX_SAFE_INTEGER),
  reason: z.enum(['rate_limit', 'buffer_full', 'disconnected']),
})
export type LogGap = z.output<typeof LogGap>

const stored = { id: Uuid, created_at: Timestamp }
export const AgentK8sEvent = K8sEvent.extend(stored)
export type AgentK8sEvent = z.output<typeof AgentK8sEvent>
export const AgentPodLog = PodLogLine.extend(stored)
export type AgentPodLog = z.output<typeof AgentPodLog>

/** As agents send it: what may be null may be left out. */
export const NewK8sEvent = K8sEvent.extend({
  source: z.string().nullable().optional(),
  involved_object: InvolvedObject.extend({ namespace: z.string().nullable().optional(), uid: z.string().nullable().optional() }),
})
export type NewK8sEvent = z.output<typeof NewK8sEvent>

/** Maximum number of items of all kinds in one request. */
export const telemetryItemsMax = 1000

export const pushTelemetry = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/telemetry',
  summary: 'Store Kubernetes events and log lines of stacks, and announce gaps; items of other agents or stacks are refused one by one',
  params: byId(AgentId),
  body: z.object({
    k8s_events: z.array(NewK8sEvent).max(telemetryItemsMax).default([]),
    pod_log_lines: z.array(PodLogLine).max(telemetryItemsMax).default([]),
    log_gaps: z.array(LogGap).max(telemetryItemsMax).default([]),
  }),
  success: 202,
  response: z.object({ accepted: z.int(), refused: z.int() }),
  errors: ['agent_pak_mismatch'],
})

/** A limit out of range is drawn into it. */
const query = z.object({ since: Timestamp.optional(), limit: z.int().default(500), cursor: pageQuery.cursor })

export const listTelemetryEvents = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/events',
  summary: 'List Kubernetes events of the objects of a stack, newest first',
  params: byId(StackId),
  query,
  success: 200,
  response: z.object({ retention: RetentionInfo, events: z.array(AgentK8sEvent) }),
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_cursor'],
})

export const listTelemetryLogs = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/logs',
  summary: 'List log lines of the pods of a stack, newest first',
  params: byId(StackId),
  query,
  success: 200,
  response: z.object({ retention: RetentionInfo, lines: z.array(AgentPodLog) }),
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_cursor'],
})
