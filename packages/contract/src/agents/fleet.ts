// Fleet overview: every agent with its pending work, and counts over all resources.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentEvent } from '../reports/agent-event.ts'
import { AgentId, byId, GeneratorId, pageQuery, Timestamp } from '../wire.ts'

export const FleetAgentRecord = z.object({
  agent_id: AgentId,
  name: z.string(),
  cluster_name: z.string(),
  status: z.string(),
  ws_connected: z.boolean(),
  connected_since: Timestamp.nullable(),
  last_heartbeat: Timestamp.nullable(),
  heartbeat_age_seconds: z.int().nullable(),
  pending_object_count: z.int(),
  pending_work_orders: z.int(),
  claimed_work_orders: z.int(),
  last_event_at: Timestamp.nullable(),
  seconds_since_last_event: z.int().nullable(),
  health_failing: z.int(),
  health_degraded: z.int(),
  k8s_reachable: z.boolean().nullable(),
  k8s_api_latency_ms: z.int32().nullable(),
})
export type FleetAgentRecord = z.output<typeof FleetAgentRecord>

/** With include=agent: also what tells clusters apart, so that a list of the fleet needs no read per agent. */
export const ListedFleetAgent = FleetAgentRecord.extend({
  connection_state: z.enum(['connected', 'disconnected', 'never']).optional(),
  last_seen_at: Timestamp.nullable().optional(),
  agent_version: z.string().nullable().optional(),
  labels: z.array(z.string()).optional(),
})
export type ListedFleetAgent = z.output<typeof ListedFleetAgent>

export const Overview = z.object({
  at: Timestamp,
  fleet: z.object({ total: z.int(), current: z.int(), behind: z.int(), silent: z.int(), never: z.int() }),
  stacks: z.object({
    total: z.int(),
    healthy: z.int(),
    degraded: z.int(),
    failing: z.int(),
    unknown: z.int(),
    drifted: z.int(),
  }),
  /** Stacks with a hold. */
  holds: z.int(),
  /** A field that is null has no such part in this release. */
  decisions: z.object({ prune_held: z.int(), agents_waiting: z.int().nullable(), approvals: z.int().nullable() }),
  deliveries: z.object({ pending: z.int(), failed: z.int(), dead_24h: z.int(), oldest_pending_seconds: z.int().nullable() }),
  work_orders: z.object({ pending: z.int(), claimed: z.int(), retry_pending: z.int() }).nullable(),
  oldest_seen_at: Timestamp.nullable(),
})
export type Overview = z.output<typeof Overview>

export const listFleet = endpoint({
  method: 'GET',
  path: '/api/v1/fleet',
  summary: 'List agents by name with connection, pending work and health; pak_id filters by generator. With include=agent, add labels',
  query: z.object({ pak_id: GeneratorId.optional(), include: z.enum(['agent']).optional(), ...pageQuery }),
  success: 200,
  response: z.array(ListedFleetAgent),
  errors: ['invalid_cursor'],
})

export const getAgentFleetStatus = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/fleet-status',
  summary: 'Read one agent of the fleet with its newest events',
  params: byId(AgentId),
  success: 200,
  response: z.object({ record: FleetAgentRecord, recent_events: z.array(AgentEvent) }),
  errors: ['agent_not_found'],
})

export const getOverview = endpoint({
  method: 'GET',
  path: '/api/v1/overview',
  summary: 'Read counts of agents, stacks, deliveries and pending decisions',
  success: 200,
  response: Overview,
})
