// Which lanes a flow has: one for the main sink, one per route, one for the errors sink; with their names and bounds.
import { createHash } from 'node:crypto'
import type { Sink as SinkSpec } from '@brokkr/contract/dataflow/connectors/index.ts'
import type { Route } from '@brokkr/contract/dataflow/route.ts'
import { type Flow, routesOf } from '@brokkr/contract/dataflow/types.ts'
import type { BatchBounds } from './batcher.ts'

export interface LanePlan {
  readonly name: string
  readonly role: 'main' | 'route' | 'errors'
  readonly spec: SinkSpec
  readonly route: Route | undefined
  readonly bounds: BatchBounds
  readonly positionKey: string
  /** The sink writes payloads as they are, whatever is in them. */
  readonly writesBytes: boolean
}

export function planLanes(flow: Flow, identity: string): LanePlan[] {
  const routes = routesOf(flow.transformations)
  const routing = routes.length === 0 ? '' : `@${routingHash(routes)}`
  const plan = (role: LanePlan['role'], name: string, spec: SinkSpec, route?: Route): LanePlan => ({
    name,
    role,
    spec,
    route,
    bounds: boundsOf(flow, spec, role),
    writesBytes: role !== 'errors' && spec.type === 'kafka' && spec.config.format === 'json' && spec.config.keyField === undefined,
    positionKey: `${identity}${role === 'route' ? `/${route?.id}` : ''}${routing}`,
  })
  return [
    plan('main', 'default', flow.sink),
    ...routes.map((route) => plan('route', route.name ?? route.condition.text, route.sink, route)),
    ...(flow.errors === undefined ? [] : [plan('errors', 'errors', flow.errors.sink)]),
  ]
}

/** Positions kept in sinks hold for one way of routing: under another a message may belong to a sink that is past it already. */
function routingHash(routes: readonly Route[]): string {
  const text = JSON.stringify(routes.map(({ id, condition, sink }) => [id, condition.text, sink.type]))
  return createHash('sha256').update(text).digest('hex').slice(0, 8)
}

function boundsOf(flow: Flow, { config }: SinkSpec, role: LanePlan['role']): BatchBounds {
  const isSingle = flow.ackGranularity === 'message' && flow.collapseBatchOnMessageAck && role !== 'errors'
  return {
    records: isSingle ? 1 : config.batchSize,
    bytes: config.batchBytes,
    intervalMs: config.batchFlushIntervalSeconds * 1000,
    // A letter keeps its message open: it does not wait for company.
    isEager: config.eager || role === 'errors' || isSingle,
    keepsMessages: false,
  }
}

/** The group and the lane: no other flow's transactions have that name, and no other processor of this one. */
export const soleWriter = ({ source, replicas }: Flow, positionKey: string): string | undefined =>
  source.type === 'kafka' && replicas === 1 ? `${source.config.consumerGroup}/${positionKey}` : undefined

/** Whether positions only grow: a polling source that reads back hands out late rows behind newer ones. */
export const isMonotonic = ({ source }: Flow): boolean => !(source.type === 'postgresql' && (source.config.overlapSeconds ?? 0) > 0)
