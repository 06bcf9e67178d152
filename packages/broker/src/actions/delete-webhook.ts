// Deletes a webhook subscription; its deliveries go with it, those under way may still arrive.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import type { Sql } from '../store/sql.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'

export async function deleteWebhook(
  deps: { sql: Sql; hooks: Subscriptions; wakeFeed: () => void },
  { id, by }: { id: string; by: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    if ((await webhookSubscriptions.remove(sql, { id })) === 0) throw new ApiError('webhook_not_found', 'no such webhook')
    await recordDeed(sql, { by, action: 'webhook.deleted', on: { type: 'webhook_subscription', id } })
  })
  deps.hooks.drop()
  deps.wakeFeed()
}
