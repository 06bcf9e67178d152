// Telemetry over HTTP: agents push it, readers page through it.
import { ApiError } from '@brokkr/contract/errors.ts'
import { telemetryItemsMax } from '@brokkr/contract/telemetry/telemetry.ts'
import type { BrokerDeps } from '../deps.ts'
import { newestFirst } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { openEvent, openLine, storeTelemetry } from './actions.ts'
import { acceptItem, type NewTelemetryItem, toRetentionInfo } from './rules.ts'
import * as k8sEvents from './store/k8s-events.ts'
import * as podLogs from './store/pod-logs.ts'

export const handlePush: Handler<'pushTelemetry', BrokerDeps> = async (deps, { params, body }) => {
  const sent: NewTelemetryItem[] = [
    ...body.k8s_events.map((event): NewTelemetryItem => ({ is: 'k8s_event', body: event })),
    ...body.pod_log_lines.map((line): NewTelemetryItem => ({ is: 'pod_log_line', body: line })),
    ...body.log_gaps.map((gap): NewTelemetryItem => ({ is: 'log_gap', body: gap })),
  ]
  if (sent.length > telemetryItemsMax)
    throw new ApiError('validation_failed', `a request carries at most ${telemetryItemsMax} items; send the rest in another one`)
  const items = sent.flatMap((item) => acceptItem(params.id, item) ?? [])
  const batch = await storeTelemetry(deps, items)
  deps.live.publish(batch)
  return { accepted: batch.items.length, refused: sent.length - batch.items.length }
}

const rowsMax = 5000

export const handleListEvents: Handler<'listTelemetryEvents', BrokerDeps> = async ({ sql, seal, config }, request) => {
  const retention_seconds = config.broker.telemetry_retention_seconds
  const filter = { stack_id: request.params.id, since: request.query.since ?? null, retention_seconds }
  const rows = await page(withClampedLimit(request), newestFirst, {
    name: 'listTelemetryEvents',
    cap: rowsMax,
    limitMax: rowsMax,
    read: ({ after: [after_at, after_id], limit }) => k8sEvents.list(sql, { ...filter, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => bytes,
  })
  return { retention: toRetentionInfo(retention_seconds, rows), events: rows.map((row) => openEvent(seal, row)) }
}

export const handleListLogs: Handler<'listTelemetryLogs', BrokerDeps> = async ({ sql, seal, config }, request) => {
  const retention_seconds = config.broker.telemetry_retention_seconds
  const filter = { stack_id: request.params.id, since: request.query.since ?? null, retention_seconds }
  const rows = await page(withClampedLimit(request), newestFirst, {
    name: 'listTelemetryLogs',
    cap: rowsMax,
    limitMax: rowsMax,
    read: ({ after: [after_at, after_id], limit }) => podLogs.list(sql, { ...filter, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => bytes,
  })
  return { retention: toRetentionInfo(retention_seconds, rows), lines: rows.map((row) => openLine(seal, row)) }
}

function withClampedLimit<Request extends { readonly query: { readonly limit: number } }>(request: Request): Request {
  // The request has getters, which a spread would lose.
  return Object.create(request, { query: { value: { ...request.query, limit: Math.max(1, request.query.limit) } } }) as Request
}
