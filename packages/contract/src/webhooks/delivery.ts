// Webhook deliveries, including those that agents send in place of the broker.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, pageQuery, Timestamp, Uuid } from '../wire.ts'
import { WebhookDelivery } from './subscription.ts'

export const listDeliveries = endpoint({
  method: 'GET',
  path: '/api/v1/webhooks/{id}/deliveries',
  summary: 'List deliveries of a webhook subscription, newest first',
  params: byId(Uuid),
  query: z.object({ status: z.string().max(50).optional(), offset: z.int().min(0).max(10_000).default(0), ...pageQuery }),
  success: 200,
  response: z.array(WebhookDelivery),
  errors: ['webhook_not_found', 'invalid_cursor'],
})

export const listAllDeliveries = endpoint({
  method: 'GET',
  path: '/api/v1/webhook-deliveries',
  summary: 'List deliveries of all webhook subscriptions, newest first',
  query: z.object({
    status: z.string().max(50).optional(),
    event_type: z.string().max(100).optional(),
    /** Inclusive. */
    since: Timestamp.optional(),
    ...pageQuery,
  }),
  success: 200,
  response: z.array(WebhookDelivery),
  errors: ['invalid_cursor'],
})

export const replayDelivery = endpoint({
  method: 'POST',
  path: '/api/v1/webhook-deliveries/{id}/replay',
  summary: 'Send the message of a delivery again as a new delivery',
  params: byId(Uuid),
  success: 201,
  response: WebhookDelivery,
  errors: ['delivery_not_found'],
})

export const replayDeliveries = endpoint({
  method: 'POST',
  path: '/api/v1/webhooks/{id}/replay',
  summary: 'Send the deliveries of a period again, oldest first, at most 10,000; without a status, those that failed permanently',
  params: byId(Uuid),
  body: z.object({
    since: Timestamp,
    until: Timestamp.nullable().optional(),
    event_types: z.array(z.string().max(100)).max(50).nullable().optional(),
    status: z
      .array(z.enum(['success', 'dead']))
      .max(2)
      .nullable()
      .optional(),
  }),
  success: 202,
  response: z.object({ count: z.int() }),
  errors: ['webhook_not_found'],
})

/** Contains the address in plain text, because the claiming agent sends the request. */
export const PendingWebhookDelivery = z.object({
  id: Uuid,
  subscription_id: Uuid,
  event_type: z.string(),
  payload: z.string(),
  url: z.string(),
  auth_header: z.string().nullable(),
  timeout_seconds: z.int32(),
  max_retries: z.int32(),
  attempts: z.int32(),
  headers: z.record(z.string(), z.string()),
})
export type PendingWebhookDelivery = z.output<typeof PendingWebhookDelivery>

export const getPendingAgentWebhooks = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{agent_id}/webhooks/pending',
  summary: 'Claim up to ten deliveries that an agent must send',
  params: z.object({ agent_id: AgentId }),
  success: 200,
  response: z.array(PendingWebhookDelivery),
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const reportDeliveryResult = endpoint({
  method: 'POST',
  path: '/api/v1/webhook-deliveries/{id}/result',
  summary: 'Report the result of a delivery that an agent claimed',
  params: byId(Uuid),
  body: z.object({
    success: z.boolean(),
    status_code: z.int().nullable().optional(),
    error: z.string().nullable().optional(),
    duration_ms: z.number().nullable().optional(),
  }),
  success: 200,
  response: z.object({
    status: z.string(),
    delivery_id: Uuid,
    attempts: z.int32().optional(),
    next_retry_at: Timestamp.nullable().optional(),
  }),
  errors: ['agent_pak_required', 'delivery_not_acquired_by_agent', 'delivery_not_found'],
})
