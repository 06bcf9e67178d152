// The fleet at a glance: every agent with what it still has to do, and one screen of counts over everything.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentEvent } from './event.ts'
import { AgentId, byId, GeneratorId, pageQuery, Timestamp } from './wire.ts'

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
  holds: z.int(),
  decisions: z.object({ prune_held: z.int(), agents_waiting: z.int(), approvals: z.int() }),
  deliveries: z.object({ pending: z.int(), failed: z.int(), dead_24h: z.int(), oldest_pending_seconds: z.int().nullable() }),
  work_orders: z.object({ pending: z.int(), claimed: z.int(), retry_pending: z.int() }),
  oldest_seen_at: Timestamp.nullable(),
})
export type Overview = z.output<typeof Overview>

export const listFleet = endpoint({
  method: 'GET',
  path: '/api/v1/fleet',
  summary: 'Every agent by name: is it connected, what is pending, how is it doing. pak_id names a generator',
  query: z.object({ pak_id: GeneratorId.optional(), ...pageQuery }),
  success: 200,
  response: z.array(FleetAgentRecord),
  errors: ['invalid_cursor'],
})

export const getAgentFleetStatus = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/fleet-status',
  summary: 'One agent of the fleet with its newest events',
  params: byId(AgentId),
  success: 200,
  response: z.object({ record: FleetAgentRecord, recent_events: z.array(AgentEvent) }),
  errors: ['agent_not_found'],
})

export const getOverview = endpoint({
  method: 'GET',
  path: '/api/v1/overview',
  summary: 'One screen of counts over fleet, stacks and what waits for somebody',
  success: 200,
  response: Overview,
})
