// Makes a webhook subscription. Its address, credential and signing secret are sealed; the secret is shown once, by the answer.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Webhook } from '@brokkr/contract/webhook.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { checkSettings, type SentSettings } from '../domain/webhook-settings.ts'
import { webhookOf } from '../domain/webhook-view.ts'
import type { Seal } from '../seal.ts'
import type { Sql } from '../store/sql.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import type { Receivers } from '../webhooks/receivers.ts'
import { placeOf } from '../webhooks/sealed-parts.ts'
import { makeSigningSecret } from '../webhooks/sign.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'

export interface WebhookDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly hooks: Subscriptions
  readonly webhooks: { readonly receivers: Receivers }
  readonly wakeFeed: () => void
}

export async function createWebhook(
  deps: WebhookDeps,
  { settings, by }: { settings: SentSettings; by: Actor },
): Promise<Webhook & { signing_secret: string }> {
  const { name, url, authHeader, eventTypes, filters, targetLabels, maxRetries, timeoutSeconds } = checkSettings(settings)
  if (name === null || url === null || eventTypes === null)
    throw new ApiError('invalid_request_body', 'a webhook needs name, url and event_types')
  // What agents deliver they check themselves: reaching what we cannot is why they do it.
  if ((targetLabels ?? []).length === 0) await deps.webhooks.receivers.check(url)
  const id = uuid7()
  const signing_secret = makeSigningSecret()
  const row = await deps.sql.begin(async (sql) => {
    const made = await webhookSubscriptions.insert(sql, {
      id,
      name,
      url_sealed: deps.seal.seal(placeOf('url', id), url),
      auth_sealed: authHeader === null ? null : deps.seal.seal(placeOf('auth_header', id), authHeader),
      secret_sealed: deps.seal.seal(placeOf('secret', id), signing_secret),
      event_types: eventTypes,
      filters: filters === null ? null : JSON.stringify(filters),
      target_labels: targetLabels,
      max_retries: maxRetries ?? 5,
      timeout_seconds: timeoutSeconds ?? 30,
      created_by: by.kind,
    })
    await recordDeed(sql, { by, action: 'webhook.created', on: { type: 'webhook_subscription', id }, details: { name } })
    return made
  })
  deps.hooks.drop()
  deps.wakeFeed()
  return { ...webhookOf(row), signing_secret }
}
