// Hands deliveries to an agent that holds all the labels they ask for: address and credential in clear text, because it has to send them.
// What cannot be opened is given up at once.
import type { PendingWebhookDelivery } from '@brokkr/contract/webhook-delivery.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'
import type { Sql } from '../store/sql.ts'
import { finishDelivery } from '../webhooks/finish-delivery.ts'
import type { PartsOpener } from '../webhooks/sealed-parts.ts'
import { signatureHeaders } from '../webhooks/sign.ts'

type Deps = { sql: Sql; clock: Clock; webhooks: { readonly opener: PartsOpener } }
const claimsMax = 10

/** Oldest first. */
export async function claimAgentDeliveries(deps: Deps, { agentId }: { agentId: string }): Promise<PendingWebhookDelivery[]> {
  const claimed = await deliveryLeases.claimForAgent(deps.sql, { agent_id: agentId, limit: claimsMax })
  const pending: PendingWebhookDelivery[] = []
  for (const delivery of claimed.toSorted(byAge)) {
    const parts = deps.webhooks.opener.open(delivery.subscription_id, delivery, 'agent')
    if ('broken' in parts) {
      const error = `the ${parts.broken} of this webhook cannot be opened with any key`
      await finishDelivery(deps.sql, { ...delivery, holder: agentId }, { is: 'hopeless', statusCode: null, error })
      continue
    }
    const { id, subscription_id, event_type, payload, timeout_seconds, max_retries, attempts } = delivery
    const signing = { deliveryId: id, payload, unixSeconds: Math.floor(deps.clock.now() / 1000), secrets: parts.secrets }
    const clear = { url: parts.url, auth_header: parts.authHeader, headers: signatureHeaders(signing) }
    pending.push({ id, subscription_id, event_type, payload, timeout_seconds, max_retries, attempts, ...clear })
  }
  return pending
}

const byAge = (one: deliveryLeases.ClaimedDelivery, other: deliveryLeases.ClaimedDelivery): number =>
  one.created_at === other.created_at ? (one.id < other.id ? -1 : 1) : one.created_at < other.created_at ? -1 : 1
