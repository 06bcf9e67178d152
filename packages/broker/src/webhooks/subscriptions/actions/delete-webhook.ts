// Deletes a webhook subscription with its deliveries; deliveries in flight may still arrive.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../../audit/record.ts'
import type { Actor } from '../../../audit/rules.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import type { SubscriptionCache } from '../subscription-cache.ts'

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
