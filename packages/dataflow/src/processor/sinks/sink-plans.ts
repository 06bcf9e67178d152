// Plans the sink workers of a flow: one for the main sink, one per route, one for the errors sink, with names and batch limits.
import { createHash } from 'node:crypto'
import type { Sink as SinkSpec } from '@brokkr/contract/dataflow/connectors/index.ts'
import type { Route } from '@brokkr/contract/dataflow/spec/route.ts'
import { type Flow, listRoutes } from '@brokkr/contract/dataflow/spec/types.ts'
import type { BatchLimits } from './batcher.ts'

export interface SinkPlan {
  readonly name: string
  readonly role: 'main' | 'route' | 'errors'
  readonly spec: SinkSpec
  readonly route: Route | undefined
  readonly limits: BatchLimits
  readonly positionKey: string
  /** The sink writes payloads as bytes, without reading them. */
  readonly writesBytes: boolean
}

export function planSinks(flow: Flow, identity: string): SinkPlan[] {
  const routes = listRoutes(flow.transformations)
  const routing = routes.length === 0 ? '' : `@${routingHash(routes)}`
  const plan = (role: SinkPlan['role'], name: string, spec: SinkSpec, route?: Route): SinkPlan => ({
    name,
    role,
    spec,
    route,
    limits: toBatchLimits(flow, spec, role),
    writesBytes: role !== 'errors' && spec.type === 'kafka' && spec.config.format === 'json' && spec.config.keyField === undefined,
    positionKey: `${identity}${role === 'route' ? `/${route?.id}` : ''}${routing}`,
  })
  return [
    plan('main', 'default', flow.sink),
    ...routes.map((route) => plan('route', route.name ?? route.condition.text, route.sink, route)),
    ...(flow.errors === undefined ? [] : [plan('errors', 'errors', flow.errors.sink)]),
  ]
}

/** Part of the key of stored positions: with other routes, a message may go to a sink whose position is already past it. */
function routingHash(routes: readonly Route[]): string {
  const text = JSON.stringify(routes.map(({ id, condition, sink }) => [id, condition.text, sink.type]))
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}

function toBatchLimits(flow: Flow, { config }: SinkSpec, role: SinkPlan['role']): BatchLimits {
  const isSingle = flow.ackGranularity === 'message' && flow.collapseBatchOnMessageAck && role !== 'errors'
  return {
    records: isSingle ? 1 : config.batchSize,
    bytes: config.batchBytes,
    intervalMs: config.batchFlushIntervalSeconds * 1000,
    // A dead letter keeps its message in flight, so it does not wait for a full batch.
    isEager: config.eager || role === 'errors' || isSingle,
    keepsMessagesWhole: false,
  }
}

/** Transactional id: unique per consumer group and sink, and used by one processor only. */
export const soleWriter = ({ source, replicas }: Flow, positionKey: string): string | undefined =>
  source.type === 'kafka' && replicas === 1 ? `${source.config.consumerGroup}/${positionKey}` : undefined

/** False for a polling source with an overlap: it emits late rows after newer ones. */
export const hasMonotonicPositions = ({ source }: Flow): boolean =>
  !(source.type === 'postgresql' && (source.config.overlapSeconds ?? 0) > 0)
