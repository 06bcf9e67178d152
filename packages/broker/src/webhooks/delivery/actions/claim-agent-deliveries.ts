// Claims deliveries for an agent that has all their target labels. Returns address and credential in clear text, because the agent sends
// them. A delivery whose parts cannot be opened becomes dead at once.
import type { PendingWebhookDelivery } from '@brokkr/contract/webhooks/delivery.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { PartsOpener } from '../../subscriptions/sealed-parts.ts'
import { finishDelivery } from '../finish-delivery.ts'
import { buildSignatureHeaders } from '../sign.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'

type Deps = { sql: Sql; clock: Clock; webhooks: { readonly opener: PartsOpener } }
const claimsMax = 10

/** Oldest first. */
export async function claimAgentDeliveries(deps: Deps, { agentId }: { agentId: string }): Promise<PendingWebhookDelivery[]> {
  const claimed = await deliveryLeases.claimForAgent(deps.sql, { agent_id: agentId, limit: claimsMax })
  const pending: PendingWebhookDelivery[] = []
  for (const delivery of claimed.toSorted(byAge)) {
    const parts = deps.webhooks.opener.open(delivery.subscription_id, delivery, 'agent')
    if ('broken' in parts) {
      const error = `the ${parts.broken} of this webhook cannot be opened with any configured key`
      await finishDelivery(deps.sql, { ...delivery, holder: agentId }, { is: 'permanentFailure', statusCode: null, error })
      continue
    }
    const { id, subscription_id, event_type, payload, timeout_seconds, max_retries, attempts } = delivery
    const signing = { deliveryId: id, payload, unixSeconds: Math.floor(deps.clock.now() / 1000), secrets: parts.secrets }
    const clear = { url: parts.url, auth_header: parts.authHeader, headers: buildSignatureHeaders(signing) }
    pending.push({ id, subscription_id, event_type, payload, timeout_seconds, max_retries, attempts, ...clear })
  }
  return pending
}

const byAge = (one: deliveryLeases.ClaimedDelivery, other: deliveryLeases.ClaimedDelivery): number =>
  one.created_at === other.created_at ? (one.id < other.id ? -1 : 1) : one.created_at < other.created_at ? -1 : 1
