// Endpoints for operating a broker: configuration and connected agents.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, Timestamp } from '../wire.ts'

export const reloadConfig = endpoint({
  method: 'POST',
  path: '/api/v1/admin/config/reload',
  summary: 'Reload the configuration file in every broker process; a reload with any problem changes nothing',
  success: 200,
  response: z.object({
    reloaded_at: Timestamp,
    changes: z.array(z.object({ key: z.string(), old_value: z.unknown(), new_value: z.unknown() })),
    success: z.boolean(),
    message: z.string().optional(),
  }),
  errors: ['config_invalid'],
})

export const listWsConnections = endpoint({
  method: 'GET',
  path: '/api/v1/admin/ws/connections',
  summary: 'List agents connected by WebSocket to any broker process',
  success: 200,
  response: z.object({
    connected_agents: z.int(),
    connections: z.array(z.object({ agent_id: AgentId, connected_since: Timestamp, messages_in: z.int(), messages_out: z.int() })),
    live_subscribers: z.int(),
  }),
})
