// Webhook deliveries: lists, replays, and claims and results of agents that deliver.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { WebhookDelivery } from '@brokkr/contract/webhooks/subscription.ts'
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import { newestFirst } from '../../http/response/list-order.ts'
import { page } from '../../http/response/paging.ts'
import type { Handler } from '../../http/server/handler.ts'
import * as webhookSubscriptions from '../subscriptions/store/webhook-subscriptions.ts'
import { claimAgentDeliveries, reportDeliveryResult } from './actions/agent-deliveries.ts'
import { replayDeliveries, replayDelivery } from './actions/replay-deliveries.ts'
import * as webhookDeliveries from './store/webhook-deliveries.ts'

const cap = 1000
const usualLimit = 50

export const handleListOfWebhook: Handler<'listDeliveries', BrokerDeps> = async ({ sql }, request) => {
  const { id: subscription_id } = request.params
  if ((await webhookSubscriptions.get(sql, { id: subscription_id })) === null) throw new ApiError('webhook_not_found', 'no such webhook')
  const { status, offset, ...query } = request.query
  const paged = { ...request, query: { ...query, status, limit: query.limit ?? usualLimit } }
  const entries = await page(paged, newestFirst, {
    name: 'listDeliveries',
    cap,
    // A cursor already lies behind the rows that the offset skipped.
    read: ({ after: [after_at, after_id], limit }) =>
      webhookDeliveries.listOfSubscription(sql, {
        subscription_id,
        status: status ?? null,
        after_at,
        after_id,
        limit,
        offset: query.cursor === undefined ? offset : 0,
      }),
    bytesOf: ({ bytes }) => 512 + bytes,
  })
  return readDeliveries({ sql }, entries)
}

export const handleList: Handler<'listAllDeliveries', BrokerDeps> = async ({ sql }, request) => {
  const { status, event_type, since } = request.query
  const filter = { status: status ?? null, event_type: event_type ?? null, since: since ?? null }
  const entries = await page(request, newestFirst, {
    name: 'listAllDeliveries',
    cap,
    read: ({ after: [after_at, after_id], limit }) => webhookDeliveries.list(sql, { ...filter, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => 512 + bytes,
  })
  return readDeliveries({ sql }, entries)
}

/** Keeps the order of `entries`. Leaves out deliveries that were deleted after the list was read. */
async function readDeliveries({ sql }: Pick<BrokerDeps, 'sql'>, entries: readonly { id: string }[]): Promise<WebhookDelivery[]> {
  const ids = entries.map(({ id }) => id)
  const deliveriesById = new Map<string, WebhookDelivery>((await webhookDeliveries.among(sql, { ids })).map((row) => [row.id, row]))
  return ids.flatMap((id) => deliveriesById.get(id) ?? [])
}

export const handleReplay: Handler<'replayDelivery', BrokerDeps> = (deps, request) =>
  replayDelivery(deps, { id: request.params.id, actor: toActor(request) })

export const handleReplayMany: Handler<'replayDeliveries', BrokerDeps> = (deps, request) => {
  const { since, until, event_types: eventTypes, status: statuses } = request.body
  const selection = { since, until: until ?? null, eventTypes: eventTypes ?? null, statuses: statuses ?? null }
  return replayDeliveries(deps, { subscriptionId: request.params.id, ...selection, actor: toActor(request) })
}

export const handlePending: Handler<'getPendingAgentWebhooks', BrokerDeps> = (deps, request) =>
  claimAgentDeliveries(deps, { agentId: request.params.agent_id })

export const handleResult: Handler<'reportDeliveryResult', BrokerDeps> = (deps, request) => {
  const { success, status_code: statusCode, error } = request.body
  const result = { success, statusCode: statusCode ?? null, error: error ?? null }
  return reportDeliveryResult(deps, { id: request.params.id, agentId: request.principal.id, ...result, actor: toActor(request) })
}
