// Changes a webhook subscription. Null and what is not sent stay; an address, or the wish that we deliver to it, is checked anew.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Webhook } from '@brokkr/contract/webhook.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { type CheckedSettings, checkSettings, type Sent, type SentSettings } from '../domain/webhook-settings.ts'
import { webhookOf } from '../domain/webhook-view.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import { placeOf } from '../webhooks/sealed-parts.ts'
import type { WebhookDeps } from './create-webhook.ts'

export interface WebhookChange {
  readonly id: string
  readonly settings: SentSettings & { readonly enabled: Sent<boolean> }
  /** Throws when the caller read an older one. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly by: Actor
}

export async function updateWebhook(deps: WebhookDeps, { id, settings, precondition, by }: WebhookChange): Promise<Webhook> {
  const known = await webhookSubscriptions.get(deps.sql, { id })
  if (known === null) throw missing()
  const checked = checkSettings(settings)
  // Before the transaction: it may ask a name server.
  await checkReceiver(deps, known, checked)
  const row = await deps.sql.begin(async (sql) => {
    const before = await webhookSubscriptions.lock(sql, { id })
    if (before === null) throw missing()
    precondition(before)
    const fields = fieldsOf(checked, settings.enabled)
    if (fields.length === 0) return before
    await recordDeed(sql, { by, action: 'webhook.updated', on: { type: 'webhook_subscription', id }, details: { fields } })
    return webhookSubscriptions.update(sql, changed(deps, before, { checked, enabled: settings.enabled ?? before.enabled }))
  })
  deps.hooks.drop()
  deps.wakeFeed()
  return webhookOf(row)
}

/** Also an address that agents delivered to until now, and we shall from now on. */
async function checkReceiver(deps: WebhookDeps, known: webhookSubscriptions.SubscriptionRow, checked: CheckedSettings): Promise<void> {
  const wasForAgents = (known.target_labels ?? []).length > 0
  const isForAgents = checked.targetLabels === null ? wasForAgents : checked.targetLabels.length > 0
  if (isForAgents || (checked.url === null && !wasForAgents)) return
  await deps.webhooks.receivers.check(checked.url ?? (await storedUrl(deps, known.id)))
}

async function storedUrl({ sql, seal }: WebhookDeps, id: string): Promise<string> {
  const stored = await webhookSubscriptions.sealed(sql, { id })
  if (stored === null) throw missing()
  if (seal.opens(placeOf('url', id), stored.url_sealed)) return seal.open(placeOf('url', id), stored.url_sealed)
  throw new ApiError('invalid_webhook', 'its url cannot be opened with any key of this broker: send it again', { status: 422 })
}

const missing = (): ApiError => new ApiError('webhook_not_found', 'no such webhook')

/** Names alone: an address or a credential is never told. */
function fieldsOf(checked: CheckedSettings, enabled: Sent<boolean>): string[] {
  const sent = { ...checked, enabled: enabled ?? null }
  return Object.entries(sent).flatMap(([field, value]) =>
    value === null ? [] : [field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)],
  )
}

type Before = NonNullable<Awaited<ReturnType<typeof webhookSubscriptions.lock>>>

function changed({ seal }: WebhookDeps, before: Before, { checked, enabled }: { checked: CheckedSettings; enabled: boolean }) {
  const { id } = before
  const filters = checked.filters ?? before.filters
  return {
    id,
    name: checked.name ?? before.name,
    url_sealed: checked.url === null ? null : seal.seal(placeOf('url', id), checked.url),
    auth_sealed: checked.authHeader === null ? null : seal.seal(placeOf('auth_header', id), checked.authHeader),
    event_types: checked.eventTypes ?? before.event_types,
    filters: filters === null ? null : JSON.stringify(filters),
    target_labels: checked.targetLabels ?? before.target_labels,
    enabled,
    max_retries: checked.maxRetries ?? before.max_retries,
    timeout_seconds: checked.timeoutSeconds ?? before.timeout_seconds,
  }
}
