// Changes a webhook subscription. Null and omitted fields stay unchanged. A new address, or a change from agent to broker delivery, is
// checked again.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Webhook } from '@brokkr/contract/webhooks/subscription.ts'
import { recordAuditEntry } from '../../../audit/record.ts'
import type { Actor } from '../../../audit/rules.ts'
import { type CheckedSettings, checkSettings, type Sent, type SentSettings, toWebhook } from '../rules/webhook-settings.ts'
import { toWebhookContext } from '../sealed-parts.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import type { WebhookDeps } from './webhooks.ts'

export interface WebhookChange {
  readonly id: string
  readonly settings: SentSettings & { readonly enabled: Sent<boolean> }
  /** Throws if the subscription changed after the caller read it. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly actor: Actor
}

export async function updateWebhook(deps: WebhookDeps, { id, settings, precondition, actor }: WebhookChange): Promise<Webhook> {
  const current = await webhookSubscriptions.get(deps.sql, { id })
  if (current === null) throw notFound()
  const checkedSettings = checkSettings(settings)
  // Before the transaction, because it may query DNS.
  await checkReceiver(deps, current, checkedSettings)
  const row = await deps.sql.begin(async (sql) => {
    const before = await webhookSubscriptions.lock(sql, { id })
    if (before === null) throw notFound()
    precondition(before)
    const fields = listChangedFields(checkedSettings, settings.enabled)
    if (fields.length === 0) return before
    await recordAuditEntry(sql, { actor, action: 'webhook.updated', resource: { type: 'webhook_subscription', id }, details: { fields } })
    return webhookSubscriptions.update(sql, toChangedRow(deps, before, { checkedSettings, enabled: settings.enabled ?? before.enabled }))
  })
  deps.subscriptionCache.drop()
  deps.wakeFeed()
  return toWebhook(row)
}

/** Also checks a stored address if delivery moves from agents to the broker. */
async function checkReceiver(
  deps: WebhookDeps,
  current: webhookSubscriptions.SubscriptionRow,
  checkedSettings: CheckedSettings,
): Promise<void> {
  const wasForAgents = (current.target_labels ?? []).length > 0
  const isForAgents = checkedSettings.targetLabels === null ? wasForAgents : checkedSettings.targetLabels.length > 0
  if (isForAgents || (checkedSettings.url === null && !wasForAgents)) return
  await deps.webhooks.receivers.check(checkedSettings.url ?? (await storedUrl(deps, current.id)))
}

async function storedUrl({ sql, seal }: WebhookDeps, id: string): Promise<string> {
  const parts = await webhookSubscriptions.sealed(sql, { id })
  if (parts === null) throw notFound()
  if (seal.canOpen(toWebhookContext('url', id), parts.url_sealed)) return seal.open(toWebhookContext('url', id), parts.url_sealed)
  throw new ApiError('invalid_webhook', 'its url cannot be decrypted with any configured key: send it again', { status: 422 })
}

const notFound = (): ApiError => new ApiError('webhook_not_found', 'no such webhook')

/** Names only; the audit log never contains an address or a credential. */
function listChangedFields(checkedSettings: CheckedSettings, enabled: Sent<boolean>): string[] {
  const fields = { ...checkedSettings, enabled: enabled ?? null }
  return Object.entries(fields).flatMap(([field, value]) =>
    value === null ? [] : [field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)],
  )
}

type Before = NonNullable<Awaited<ReturnType<typeof webhookSubscriptions.lock>>>

function toChangedRow(
  { seal }: WebhookDeps,
  before: Before,
  { checkedSettings, enabled }: { checkedSettings: CheckedSettings; enabled: boolean },
) {
  const { id } = before
  const filters = checkedSettings.filters ?? before.filters
  return {
    id,
    name: checkedSettings.name ?? before.name,
    url_sealed: checkedSettings.url === null ? null : seal.seal(toWebhookContext('url', id), checkedSettings.url),
    auth_sealed: checkedSettings.authHeader === null ? null : seal.seal(toWebhookContext('auth_header', id), checkedSettings.authHeader),
    event_types: checkedSettings.eventTypes ?? before.event_types,
    filters: filters === null ? null : JSON.stringify(filters),
    target_labels: checkedSettings.targetLabels ?? before.target_labels,
    enabled,
    max_retries: checkedSettings.maxRetries ?? before.max_retries,
    timeout_seconds: checkedSettings.timeoutSeconds ?? before.timeout_seconds,
  }
}
