// Sends one test message to the receiver of a webhook and returns the result. No delivery is stored.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { recordAuditEntry } from '../../../audit/record.ts'
import type { Actor } from '../../../audit/rules.ts'
import { uuid7 } from '../../../rules/uuid7.ts'
import { type DeliverDeps, deliver, type Sent, statusText } from '../../delivery/deliver.ts'
import { toPayload } from '../../delivery/enqueue.ts'
import type { PartsOpener } from '../sealed-parts.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'

export interface TestDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly webhooks: { readonly opener: PartsOpener; readonly outbound: DeliverDeps['outbound'] }
}
/** The caller waits for the result, so the timeout is below that of API calls. */
const timeoutSecondsMax = 20
const type = 'webhook.test'

export async function testWebhook(
  deps: TestDeps,
  { id, actor, signal }: { id: string; actor: Actor; signal: AbortSignal },
): Promise<{ success: boolean; status_code: number; message: string }> {
  const subscription = await webhookSubscriptions.sealed(deps.sql, { id })
  if (subscription === null) throw new ApiError('webhook_not_found', 'no such webhook')
  const parts = deps.webhooks.opener.open(id, subscription, 'test')
  if ('broken' in parts) throw testFailure(`its ${parts.broken} cannot be decrypted with any configured key: set it again`)
  const at = `${new Date(deps.clock.now()).toISOString().slice(0, -1)}000Z`
  const data = { message: 'This is a test webhook delivery from Brokkr', subscription_id: id }
  const payload = toPayload(uuid7(), { type, at, data })
  const timeoutMs = Math.min(subscription.timeout_seconds, timeoutSecondsMax) * 1000
  const message = { ...parts, deliveryId: uuid7(), eventType: type, payload, timeoutMs }
  const result = await deliver({ outbound: deps.webhooks.outbound, clock: deps.clock }, message, signal)
  const details = { success: result.is === 'delivered', status_code: result.statusCode }
  await recordAuditEntry(deps.sql, { actor, action: 'webhook.tested', resource: { type: 'webhook_subscription', id }, details })
  return toTestResult(result)
}

function toTestResult(result: Sent) {
  const { statusCode, body } = result
  if (result.is === 'delivered') return { success: true, status_code: result.statusCode, message: 'Test delivery successful' }
  if (statusCode === null) throw testFailure(result.error)
  throw testFailure(`the receiver answered ${statusText(statusCode)}`, { status_code: statusCode, body })
}

const testFailure = (why: string, details?: Record<string, unknown>): ApiError =>
  new ApiError('webhook_test_failed', `the test was not delivered: ${why}`, details === undefined ? {} : { details })
