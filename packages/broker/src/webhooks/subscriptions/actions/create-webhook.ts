// Creates a webhook subscription. Address, credential and signing secret are sealed; only the response contains the secret.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Webhook } from '@brokkr/contract/webhooks/subscription.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../../audit/record.ts'
import type { Actor } from '../../../audit/rules.ts'
import { uuid7 } from '../../../rules/uuid7.ts'
import type { Seal } from '../../../seal.ts'
import type { Receivers } from '../../delivery/receivers.ts'
import { createSigningSecret } from '../../delivery/sign.ts'
import { checkSettings, type SentSettings } from '../rules/webhook-settings.ts'
import { toWebhook } from '../rules/webhook-view.ts'
import { toWebhookContext } from '../sealed-parts.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import type { SubscriptionCache } from '../subscription-cache.ts'

export interface WebhookDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly subscriptionCache: SubscriptionCache
  readonly webhooks: { readonly receivers: Receivers }
  readonly wakeFeed: () => void
}

export async function createWebhook(
  deps: WebhookDeps,
  { settings, actor }: { settings: SentSettings; actor: Actor },
): Promise<Webhook & { signing_secret: string }> {
  const { name, url, authHeader, eventTypes, filters, targetLabels, maxRetries, timeoutSeconds } = checkSettings(settings)
  if (name === null || url === null || eventTypes === null)
    throw new ApiError('invalid_request_body', 'name, url and event_types are required')
  // Agents check the addresses of their deliveries themselves, because they can reach other networks than the broker.
  if ((targetLabels ?? []).length === 0) await deps.webhooks.receivers.check(url)
  const id = uuid7()
  const signing_secret = createSigningSecret()
  const row = await deps.sql.begin(async (sql) => {
    const made = await webhookSubscriptions.insert(sql, {
      id,
      name,
      url_sealed: deps.seal.seal(toWebhookContext('url', id), url),
      auth_sealed: authHeader === null ? null : deps.seal.seal(toWebhookContext('auth_header', id), authHeader),
      secret_sealed: deps.seal.seal(toWebhookContext('secret', id), signing_secret),
      event_types: eventTypes,
      filters: filters === null ? null : JSON.stringify(filters),
      target_labels: targetLabels,
      max_retries: maxRetries ?? 5,
      timeout_seconds: timeoutSeconds ?? 30,
      created_by: actor.kind,
    })
    await recordAuditEntry(sql, { actor, action: 'webhook.created', resource: { type: 'webhook_subscription', id }, details: { name } })
    return made
  })
  deps.subscriptionCache.drop()
  deps.wakeFeed()
  return { ...toWebhook(row), signing_secret }
}
