// Sends one test message to the receiver of a webhook, now and once, and tells how it went. No delivery is stored.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { uuid7 } from '../domain/uuid7.ts'
import type { Sql } from '../store/sql.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import { type DeliverDeps, deliver, type Sent, statusText } from '../webhooks/deliver.ts'
import { payloadOf } from '../webhooks/enqueue.ts'
import type { PartsOpener } from '../webhooks/sealed-parts.ts'

export interface TestDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly webhooks: { readonly opener: PartsOpener; readonly outbound: DeliverDeps['outbound'] }
}
/** Somebody waits for the answer, within the time a call may take. */
const timeoutSecondsMax = 20
const type = 'webhook.test'

export async function testWebhook(
  deps: TestDeps,
  { id, by, signal }: { id: string; by: Actor; signal: AbortSignal },
): Promise<{ success: boolean; status_code: number; message: string }> {
  const found = await webhookSubscriptions.sealed(deps.sql, { id })
  if (found === null) throw new ApiError('webhook_not_found', 'no such webhook')
  const parts = deps.webhooks.opener.open(id, found, 'test')
  if ('broken' in parts) throw failed(`its ${parts.broken} cannot be opened with any key of this broker: set it anew`)
  const at = `${new Date(deps.clock.now()).toISOString().slice(0, -1)}000Z`
  const data = { message: 'This is a test webhook delivery from Brokkr', subscription_id: id }
  const payload = payloadOf(uuid7(), { type, at, data })
  const timeoutMs = Math.min(found.timeout_seconds, timeoutSecondsMax) * 1000
  const message = { ...parts, deliveryId: uuid7(), eventType: type, payload, timeoutMs }
  const sent = await deliver({ outbound: deps.webhooks.outbound, clock: deps.clock }, message, signal)
  const details = { success: sent.is === 'delivered', status_code: sent.statusCode }
  await recordDeed(deps.sql, { by, action: 'webhook.tested', on: { type: 'webhook_subscription', id }, details })
  return answerOf(sent)
}

function answerOf(sent: Sent) {
  const { statusCode, body } = sent
  if (sent.is === 'delivered') return { success: true, status_code: sent.statusCode, message: 'Test delivery successful' }
  if (statusCode === null) throw failed(sent.error)
  throw failed(`the receiver answered ${statusText(statusCode)}`, { status_code: statusCode, body })
}

const failed = (why: string, details?: Record<string, unknown>): ApiError =>
  new ApiError('webhook_test_failed', `the test was not delivered: ${why}`, details === undefined ? {} : { details })
