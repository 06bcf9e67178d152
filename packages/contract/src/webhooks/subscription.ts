// Webhook subscriptions. Responses never contain addresses and secrets.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, Label, pageQuery, StackId, Timestamp, Uuid } from '../wire.ts'

export const WebhookFilters = z.object({ agent_id: AgentId.optional(), stack_id: StackId.optional() })

export const Webhook = z.object({
  id: Uuid,
  name: z.string(),
  has_url: z.boolean(),
  has_auth_header: z.boolean(),
  event_types: z.array(z.string()),
  filters: WebhookFilters.nullable(),
  target_labels: z.array(Label).nullable(),
  enabled: z.boolean(),
  max_retries: z.int32(),
  timeout_seconds: z.int32(),
  created_at: Timestamp,
  updated_at: Timestamp,
  created_by: z.string().nullable(),
  unknown_event_types: z.array(z.string()),
})
export type Webhook = z.output<typeof Webhook>

export const WebhookDelivery = z.object({
  id: Uuid,
  subscription_id: Uuid,
  event_type: z.string(),
  event_id: Uuid,
  payload: z.string(),
  target_labels: z.array(Label).nullable(),
  status: z.enum(['pending', 'acquired', 'success', 'failed', 'dead']),
  acquired_by: AgentId.nullable(),
  acquired_until: Timestamp.nullable(),
  attempts: z.int32(),
  last_attempt_at: Timestamp.nullable(),
  next_retry_at: Timestamp.nullable(),
  last_error: z.string().nullable(),
  created_at: Timestamp,
  completed_at: Timestamp.nullable(),
  replay_of: Uuid.nullable(),
  last_status_code: z.int32().nullable(),
})
export type WebhookDelivery = z.output<typeof WebhookDelivery>

const params = byId(Uuid)
const settings = {
  name: z.string(),
  url: z.string(),
  auth_header: z.string().nullable().optional(),
  event_types: z.array(z.string()),
  filters: z.record(z.string(), z.unknown()).nullable().optional(),
  target_labels: z.array(Label).nullable().optional(),
  max_retries: z.int().nullable().optional(),
  timeout_seconds: z.int().nullable().optional(),
  /** Of an older release; refused by name. */
  validate: z.unknown().optional(),
}

export const listWebhooks = endpoint({
  method: 'GET',
  path: '/api/v1/webhooks',
  summary: 'List webhook subscriptions, newest first',
  query: z.object(pageQuery),
  success: 200,
  response: z.array(Webhook),
  errors: ['invalid_cursor'],
})

export const createWebhook = endpoint({
  method: 'POST',
  path: '/api/v1/webhooks',
  summary: 'Create a webhook subscription; the response is the only one that contains the signing secret',
  body: z.object(settings),
  success: 201,
  response: Webhook.extend({ signing_secret: z.string() }),
  errors: ['url_required', 'invalid_url_scheme', 'invalid_webhook', 'unsupported_field'],
})

export const listEventTypes = endpoint({
  method: 'GET',
  path: '/api/v1/webhooks/event-types',
  summary: 'List event types',
  success: 200,
  response: z.array(z.string()),
})

export const getWebhook = endpoint({
  method: 'GET',
  path: '/api/v1/webhooks/{id}',
  summary: 'Read a webhook subscription',
  params,
  success: 200,
  response: Webhook,
  errors: ['webhook_not_found'],
})

export const updateWebhook = endpoint({
  method: 'PUT',
  path: '/api/v1/webhooks/{id}',
  summary: 'Change a webhook subscription; null and missing fields stay unchanged',
  params,
  body: z.object({
    ...settings,
    name: z.string().nullable().optional(),
    url: z.string().nullable().optional(),
    event_types: z.array(z.string()).nullable().optional(),
    enabled: z.boolean().nullable().optional(),
  }),
  success: 200,
  response: Webhook,
  errors: ['webhook_not_found', 'url_required', 'invalid_url_scheme', 'invalid_webhook', 'unsupported_field', 'precondition_failed'],
})

export const deleteWebhook = endpoint({
  method: 'DELETE',
  path: '/api/v1/webhooks/{id}',
  summary: 'Delete a webhook subscription with its deliveries',
  params,
  success: 204,
  errors: ['webhook_not_found'],
})

export const testWebhook = endpoint({
  method: 'POST',
  path: '/api/v1/webhooks/{id}/test',
  summary: 'Send one test request to the address of a webhook subscription',
  params,
  success: 200,
  response: z.object({ success: z.boolean(), status_code: z.int(), message: z.string() }),
  errors: ['webhook_not_found', 'webhook_test_failed'],
})

export const rotateWebhookSecret = endpoint({
  method: 'POST',
  path: '/api/v1/webhooks/{id}/rotate-secret',
  summary: 'Replace the signing secret; the response is the only one that contains it, and the old secret stays valid for one day',
  params,
  success: 200,
  response: z.object({ signing_secret: z.string() }),
  errors: ['webhook_not_found'],
})
