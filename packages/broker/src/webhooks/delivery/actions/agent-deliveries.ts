// Deliveries that agents send: claim them and report their results.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { PendingWebhookDelivery } from '@brokkr/contract/webhooks/delivery.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Actor } from '../../../audit/rules.ts'
import type { PartsOpener } from '../../subscriptions/sealed-parts.ts'
import { buildSignatureHeaders, toPlainText, truncate } from '../deliver.ts'
import { finishDelivery, giveUp, write } from '../finish-delivery.ts'
import { type AttemptResult, classifyStatusCode, nextState } from '../rules/delivery-states.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'

// Claims deliveries for an agent that has all their target labels. Returns address and credential in clear text, because the agent sends
// them. A delivery whose parts cannot be opened becomes dead at once.

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

// Stores the result of a delivery that an agent claimed. Accepts it only from the lease holder while the lease is valid.

export interface DeliveryResult {
  readonly id: string
  readonly agentId: string
  readonly success: boolean
  readonly statusCode: number | null
  readonly error: string | null
  readonly actor: Actor
}
const errorCharsMax = 500

export async function reportDeliveryResult(deps: { sql: Sql; wakeFeed: () => void }, result: DeliveryResult) {
  const { id, agentId, actor } = result
  const response = await deps.sql.begin(async (sql) => {
    const delivery = await deliveryLeases.lockForResult(sql, { id })
    if (delivery === null) throw new ApiError('delivery_not_found', 'no such delivery')
    const { acquired_by, acquired_until, is_held, attempts, max_retries, subscription_id } = delivery
    if (!is_held || acquired_by !== agentId || acquired_until === null)
      throw new ApiError('delivery_not_acquired_by_agent', 'this agent does not hold the lease of the delivery: claim deliveries again')
    const attempt = toAttemptResult(result)
    const next = nextState(attempt, { attempts, maxRetries: max_retries })
    const leasedDelivery = { id, subscription_id, acquired_until, holder: agentId, attempts, max_retries }
    const finishing = { delivery: leasedDelivery, attempt, next }
    const row = await (next.status === 'dead' ? giveUp(sql, finishing, actor) : write(sql, finishing))
    if (row === null) throw new Error(`delivery ${id} changed under its lock`)
    return next.status === 'success' ? { status: next.status, delivery_id: id } : { status: next.status, delivery_id: id, ...row }
  })
  deps.wakeFeed()
  return response
}

function toAttemptResult({ success, statusCode, error }: DeliveryResult): AttemptResult {
  if (success) return { is: 'delivered', statusCode: statusCode ?? 200 }
  const text = truncate(toPlainText(error ?? (statusCode === null ? 'not delivered' : `HTTP ${statusCode}`)), errorCharsMax)
  const isPermanent = statusCode !== null && classifyStatusCode(statusCode) === 'permanentFailure'
  return { is: isPermanent ? 'permanentFailure' : 'retry', statusCode, error: text }
}
