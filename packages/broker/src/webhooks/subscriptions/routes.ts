// Webhook subscriptions.
import { ApiError } from '@brokkr/contract/errors.ts'
import { webhookEventTypes } from '@brokkr/contract/webhooks/event-types.ts'
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import { parsePrecondition, setEtag, withTag } from '../../http/response/etag.ts'
import { newestFirst } from '../../http/response/list-order.ts'
import { page } from '../../http/response/paging.ts'
import type { Handler } from '../../http/server/handler.ts'
import { testWebhook } from './actions/test-webhook.ts'
import { updateWebhook } from './actions/update-webhook.ts'
import { createWebhook, deleteWebhook, rotateWebhookSecret } from './actions/webhooks.ts'
import { type SentSettings, toWebhook } from './rules/webhook-settings.ts'
import * as webhookSubscriptions from './store/webhook-subscriptions.ts'

export const handleList: Handler<'listWebhooks', BrokerDeps> = async ({ sql }, request) => {
  const rows = await page(request, newestFirst, {
    name: 'listWebhooks',
    cap: 10_000,
    read: ({ after: [after_at, after_id], limit }) => webhookSubscriptions.list(sql, { after_at, after_id, limit }),
  })
  return rows.map(toWebhook)
}

export const handleEventTypes: Handler<'listEventTypes', BrokerDeps> = async () => [...webhookEventTypes]

export const handleGet: Handler<'getWebhook', BrokerDeps> = async ({ sql }, request) => {
  const row = await webhookSubscriptions.get(sql, { id: request.params.id })
  if (row === null) throw new ApiError('webhook_not_found', 'no such webhook')
  return withTag(request, toWebhook(row))
}

export const handleCreate: Handler<'createWebhook', BrokerDeps> = (deps, request) =>
  createWebhook(deps, { settings: toSentSettings(request.body), actor: toActor(request) })

export const handleUpdate: Handler<'updateWebhook', BrokerDeps> = async (deps, request) => {
  const settings = { ...toSentSettings(request.body), enabled: request.body.enabled }
  const change = { id: request.params.id, settings, precondition: parsePrecondition(request), actor: toActor(request) }
  return setEtag(request, await updateWebhook(deps, change))
}

export const handleDelete: Handler<'deleteWebhook', BrokerDeps> = (deps, request) =>
  deleteWebhook(deps, { id: request.params.id, actor: toActor(request) })

export const handleTest: Handler<'testWebhook', BrokerDeps> = (deps, request) =>
  testWebhook(deps, { id: request.params.id, actor: toActor(request), signal: request.signal })

export const handleRotateSecret: Handler<'rotateWebhookSecret', BrokerDeps> = (deps, request) =>
  rotateWebhookSecret(deps, { id: request.params.id, actor: toActor(request) })

function toSentSettings(body: Partial<SentSettings>): SentSettings {
  const { name, url, auth_header, event_types, filters, target_labels, max_retries, timeout_seconds, validate } = body
  return { name, url, auth_header, event_types, filters, target_labels, max_retries, timeout_seconds, validate }
}
