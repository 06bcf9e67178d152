// The audit log: actor, action and resource of every change, newest first.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { Timestamp, Uuid } from '../wire.ts'

export const AuditLog = z.object({
  id: Uuid,
  timestamp: Timestamp,
  actor_type: z.string(),
  actor_id: Uuid.nullable(),
  action: z.string(),
  resource_type: z.string(),
  resource_id: Uuid.nullable(),
  details: z.record(z.string(), z.unknown()).nullable(),
  ip_address: z.string().optional(),
  user_agent: z.string().optional(),
  created_at: Timestamp,
  /** Current name of the actor; null if the actor no longer exists. */
  actor_name: z.string().nullable(),
})
export type AuditLog = z.output<typeof AuditLog>

export const listAuditLogs = endpoint({
  method: 'GET',
  path: '/api/v1/admin/audit-logs',
  summary: 'List audit entries, newest first; action may end in * to match a prefix',
  query: z.object({
    actor_type: z.string().max(50).optional(),
    actor_id: Uuid.optional(),
    action: z.string().max(100).optional(),
    resource_type: z.string().max(50).optional(),
    resource_id: Uuid.optional(),
    /** Inclusive. */
    from: Timestamp.optional(),
    /** Exclusive. */
    to: Timestamp.optional(),
    // Out of range is drawn into it: 1 to 1000, 0 to 10000.
    limit: z.int().default(100),
    offset: z.int().default(0),
    cursor: z.string().max(1024).optional(),
  }),
  success: 200,
  response: z.object({ logs: z.array(AuditLog), total: z.int(), count: z.int(), limit: z.int(), offset: z.int() }),
  errors: ['invalid_cursor'],
})
