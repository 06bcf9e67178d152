// Replays deliveries: each becomes a new delivery with the event id and payload of the old one, so that a receiver can detect duplicates.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { WebhookDelivery } from '@brokkr/contract/webhooks/subscription.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../../audit/record.ts'
import type { Actor } from '../../../audit/rules.ts'
import { uuid7 } from '../../../rules/uuid7.ts'
import * as webhookSubscriptions from '../../subscriptions/store/webhook-subscriptions.ts'
import * as webhookDeliveries from '../store/webhook-deliveries.ts'

type Deps = { sql: Sql; wakeFeed: () => void }

export async function replayDelivery(deps: Deps, { id, actor }: { id: string; actor: Actor }): Promise<WebhookDelivery> {
  const delivery = await deps.sql.begin(async (sql) => {
    const replay = await webhookDeliveries.replay(sql, { id: uuid7(), of: id })
    if (replay === null) throw new ApiError('delivery_not_found', 'no such delivery')
    await recordAuditEntry(sql, {
      actor,
      action: 'webhook.replayed',
      resource: toResource(replay.subscription_id),
      details: { delivery_id: id, count: 1 },
    })
    return replay
  })
  deps.wakeFeed()
  return delivery
}

export interface ReplayInput {
  readonly subscriptionId: string
  readonly since: string
  readonly until: string | null
  readonly eventTypes: string[] | null
  /** null selects dead deliveries. */
  readonly statuses: string[] | null
  readonly actor: Actor
}
const replaysMax = 10_000

/** Oldest first; returns their number. */
export async function replayDeliveries(deps: Deps, input: ReplayInput): Promise<{ count: number }> {
  const { subscriptionId: subscription_id, since, until, eventTypes: event_types, actor } = input
  const count = await deps.sql.begin(async (sql) => {
    if ((await webhookSubscriptions.get(sql, { id: subscription_id })) === null) throw new ApiError('webhook_not_found', 'no such webhook')
    const statuses = input.statuses ?? ['dead']
    const replayCount = await webhookDeliveries.replayMany(sql, { subscription_id, since, until, event_types, statuses, limit: replaysMax })
    await recordAuditEntry(sql, {
      actor,
      action: 'webhook.replayed',
      resource: toResource(subscription_id),
      details: { since, until, count: replayCount },
    })
    return replayCount
  })
  deps.wakeFeed()
  return { count }
}

const toResource = (id: string) => ({ type: 'webhook_subscription', id })
