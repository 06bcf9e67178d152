// Deliveries of webhooks: their lists, sending them again, and what agents send in the broker's place.
import { ApiError } from '@brokkr/contract/error.ts'
import type { WebhookDelivery } from '@brokkr/contract/webhook.ts'
import { claimAgentDeliveries } from '../../actions/claim-agent-deliveries.ts'
import { replayDeliveries, replayDelivery } from '../../actions/replay-deliveries.ts'
import { reportDeliveryResult } from '../../actions/report-delivery-result.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as webhookDeliveries from '../../store/webhook-deliveries.ts'
import * as webhookSubscriptions from '../../store/webhook-subscriptions.ts'
import type { Handler } from '../handler.ts'
import { newestFirst } from '../list-order.ts'
import { page } from '../paging.ts'
import { actorOf } from './actor.ts'

const cap = 1000
const usualLimit = 50

export const handleListOfWebhook: Handler<'listDeliveries', BrokerDeps> = async ({ sql }, request) => {
  const { id: subscription_id } = request.params
  if ((await webhookSubscriptions.get(sql, { id: subscription_id })) === null) throw new ApiError('webhook_not_found', 'no such webhook')
  const { status, offset, ...query } = request.query
  const paged = { ...request, query: { ...query, status, limit: query.limit ?? usualLimit } }
  const places = await page(paged, newestFirst, {
    name: 'listDeliveries',
    cap,
    // Whoever goes on by cursor is past what the offset left out.
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
  return deliveriesAt({ sql }, places)
}

export const handleList: Handler<'listAllDeliveries', BrokerDeps> = async ({ sql }, request) => {
  const { status, event_type, since } = request.query
  const filter = { status: status ?? null, event_type: event_type ?? null, since: since ?? null }
  const places = await page(request, newestFirst, {
    name: 'listAllDeliveries',
    cap,
    read: ({ after: [after_at, after_id], limit }) => webhookDeliveries.list(sql, { ...filter, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => 512 + bytes,
  })
  return deliveriesAt({ sql }, places)
}

/** In the order of their places. One may have been cleaned up since; then it is left out. */
async function deliveriesAt({ sql }: Pick<BrokerDeps, 'sql'>, places: readonly { id: string }[]): Promise<WebhookDelivery[]> {
  const ids = places.map(({ id }) => id)
  const found = new Map<string, WebhookDelivery>((await webhookDeliveries.among(sql, { ids })).map((row) => [row.id, row]))
  return ids.flatMap((id) => found.get(id) ?? [])
}

export const handleReplay: Handler<'replayDelivery', BrokerDeps> = (deps, request) =>
  replayDelivery(deps, { id: request.params.id, by: actorOf(request) })

export const handleReplayMany: Handler<'replayDeliveries', BrokerDeps> = (deps, request) => {
  const { since, until, event_types: eventTypes, status: statuses } = request.body
  const wish = { since, until: until ?? null, eventTypes: eventTypes ?? null, statuses: statuses ?? null }
  return replayDeliveries(deps, { subscriptionId: request.params.id, ...wish, by: actorOf(request) })
}

export const handlePending: Handler<'getPendingAgentWebhooks', BrokerDeps> = (deps, request) =>
  claimAgentDeliveries(deps, { agentId: request.params.agent_id })

export const handleResult: Handler<'reportDeliveryResult', BrokerDeps> = (deps, request) => {
  const { success, status_code: statusCode, error } = request.body
  const told = { success, statusCode: statusCode ?? null, error: error ?? null }
  return reportDeliveryResult(deps, { id: request.params.id, agentId: request.principal.id, ...told, by: actorOf(request) })
}
