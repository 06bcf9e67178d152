// Webhook subscriptions: create, delete, rotate the signing secret.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Webhook } from '@brokkr/contract/webhooks/subscription.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../../audit/record.ts'
import type { Actor } from '../../../audit/rules.ts'
import { uuid7 } from '../../../rules/uuid7.ts'
import type { Seal } from '../../../seal.ts'
import { createSigningSecret } from '../../delivery/deliver.ts'
import type { Receivers } from '../../delivery/receivers.ts'
import { checkSettings, type SentSettings, toWebhook } from '../rules/webhook-settings.ts'
import { toWebhookContext } from '../sealed-parts.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import type { SubscriptionCache } from '../subscription-cache.ts'

// Creates a webhook subscription. Address, credential and signing secret are sealed; only the response contains the secret.

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

/** Deletes a webhook subscription with its deliveries; deliveries in flight may still arrive. */
export async function deleteWebhook(
  deps: { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  { id, actor }: { id: string; actor: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    if ((await webhookSubscriptions.remove(sql, { id })) === 0) throw new ApiError('webhook_not_found', 'no such webhook')
    await recordAuditEntry(sql, { actor, action: 'webhook.deleted', resource: { type: 'webhook_subscription', id } })
  })
  deps.subscriptionCache.drop()
  deps.wakeFeed()
}

// Replaces the signing secret. The old secret signs too for one more day, so that receivers can switch without rejecting messages.

const oldSeconds = 86_400

export async function rotateWebhookSecret(
  deps: { sql: Sql; seal: Seal; wakeFeed: () => void },
  { id, actor }: { id: string; actor: Actor },
): Promise<{ signing_secret: string }> {
  const signing_secret = createSigningSecret()
  const { seal } = deps
  await deps.sql.begin(async (sql) => {
    const before = await webhookSubscriptions.lockSecret(sql, { id })
    if (before === null) throw new ApiError('webhook_not_found', 'no such webhook')
    // An old secret that no key opens cannot sign and is dropped.
    const isKept = seal.canOpen(toWebhookContext('secret', id), before.secret_sealed)
    await webhookSubscriptions.rotateSecret(sql, {
      id,
      secret_sealed: seal.seal(toWebhookContext('secret', id), signing_secret),
      old_secret_sealed: isKept
        ? seal.seal(toWebhookContext('old_secret', id), seal.open(toWebhookContext('secret', id), before.secret_sealed))
        : null,
      old_seconds: oldSeconds,
    })
    await recordAuditEntry(sql, { actor, action: 'webhook.secret_rotated', resource: { type: 'webhook_subscription', id } })
  })
  deps.wakeFeed()
  return { signing_secret }
}
