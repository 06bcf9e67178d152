// Webhook subscriptions.
import { ApiError } from '@brokkr/contract/error.ts'
import { webhookEventTypes } from '@brokkr/contract/webhook-event.ts'
import { createWebhook } from '../../actions/create-webhook.ts'
import { deleteWebhook } from '../../actions/delete-webhook.ts'
import { rotateWebhookSecret } from '../../actions/rotate-webhook-secret.ts'
import { testWebhook } from '../../actions/test-webhook.ts'
import { updateWebhook } from '../../actions/update-webhook.ts'
import type { BrokerDeps } from '../../deps.ts'
import type { SentSettings } from '../../domain/webhook-settings.ts'
import { webhookOf } from '../../domain/webhook-view.ts'
import * as webhookSubscriptions from '../../store/webhook-subscriptions.ts'
import { preconditionOf, tagged, withTag } from '../etag.ts'
import type { Handler } from '../handler.ts'
import { newestFirst } from '../list-order.ts'
import { page } from '../paging.ts'
import { actorOf } from './actor.ts'

export const handleList: Handler<'listWebhooks', BrokerDeps> = async ({ sql }, request) => {
  const rows = await page(request, newestFirst, {
    name: 'listWebhooks',
    cap: 10_000,
    read: ({ after: [after_at, after_id], limit }) => webhookSubscriptions.list(sql, { after_at, after_id, limit }),
  })
  return rows.map(webhookOf)
}

export const handleEventTypes: Handler<'listEventTypes', BrokerDeps> = async () => [...webhookEventTypes]

export const handleGet: Handler<'getWebhook', BrokerDeps> = async ({ sql }, request) => {
  const row = await webhookSubscriptions.get(sql, { id: request.params.id })
  if (row === null) throw new ApiError('webhook_not_found', 'no such webhook')
  return withTag(request, webhookOf(row))
}

export const handleCreate: Handler<'createWebhook', BrokerDeps> = (deps, request) =>
  createWebhook(deps, { settings: settingsOf(request.body), by: actorOf(request) })

export const handleUpdate: Handler<'updateWebhook', BrokerDeps> = async (deps, request) => {
  const settings = { ...settingsOf(request.body), enabled: request.body.enabled }
  const change = { id: request.params.id, settings, precondition: preconditionOf(request), by: actorOf(request) }
  return tagged(request, await updateWebhook(deps, change))
}

export const handleDelete: Handler<'deleteWebhook', BrokerDeps> = (deps, request) =>
  deleteWebhook(deps, { id: request.params.id, by: actorOf(request) })

export const handleTest: Handler<'testWebhook', BrokerDeps> = (deps, request) =>
  testWebhook(deps, { id: request.params.id, by: actorOf(request), signal: request.signal })

export const handleRotateSecret: Handler<'rotateWebhookSecret', BrokerDeps> = (deps, request) =>
  rotateWebhookSecret(deps, { id: request.params.id, by: actorOf(request) })

function settingsOf(body: Partial<SentSettings>): SentSettings {
  const { name, url, auth_header, event_types, filters, target_labels, max_retries, timeout_seconds, validate } = body
  return { name, url, auth_header, event_types, filters, target_labels, max_retries, timeout_seconds, validate }
}
