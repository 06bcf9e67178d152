// Running the broker: its configuration, and who is connected to it.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentId, Timestamp } from './wire.ts'

export const reloadConfig = endpoint({
  method: 'POST',
  path: '/api/v1/admin/config/reload',
  summary: 'Read the configuration file again, in every process; all of it is applied or nothing',
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
  summary: 'Agents connected by socket, over all processes',
  success: 200,
  response: z.object({
    connected_agents: z.int(),
    connections: z.array(z.object({ agent_id: AgentId, connected_since: Timestamp, messages_in: z.int(), messages_out: z.int() })),
    live_subscribers: z.int(),
  }),
})
