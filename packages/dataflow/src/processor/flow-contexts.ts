// What the connectors of a flow are told about it, and whom they tell.
import type { ConnectorContext, Partition, SinkContext, Source, SourceContext } from './connectors/connector.ts'
import { type LanePlan, soleWriter } from './flow-lanes.ts'
import type { FlowWatch } from './flow-watch.ts'
import type { PipelineDeps, PipelineOptions } from './pipeline-options.ts'

export interface Told {
  readonly stopping: AbortSignal
  readonly watch: () => FlowWatch
  assigned(partitions: readonly Partition[]): Promise<void>
  revoked(partitions: readonly Partition[]): Promise<void>
  stateChanged(): void
}

export function sourceContext(deps: PipelineDeps, options: PipelineOptions, told: Told): SourceContext {
  const { flow, isBounded } = options
  return {
    ...connectorContext(deps, options, told.stopping, flow.source.type),
    stored: deps.checkpoint?.state,
    isBounded,
    replicas: flow.replicas,
    assigned: (partitions) => told.assigned(partitions),
    revoked: (partitions) => told.revoked(partitions),
    stateChanged: () => told.stateChanged(),
    notice: (reason, message) => told.watch().notice(reason, message),
    dropped: (reason, count) => told.watch().dropped(reason, count),
  }
}

export function sinkContext(
  deps: PipelineDeps,
  options: PipelineOptions,
  { role, positionKey, spec, name }: LanePlan,
  told: { readonly stopping: AbortSignal; readonly source: Source },
): SinkContext {
  return {
    ...connectorContext(deps, options, told.stopping, spec.type),
    role,
    positionKey,
    source: told.source,
    epoch: deps.checkpoint?.epoch ?? 0,
    soleWriter: soleWriter(options.flow, positionKey),
    conflictsIgnored: (count) => deps.metrics.conflicts(spec.type, name).inc(count),
  }
}

function connectorContext(deps: PipelineDeps, options: PipelineOptions, signal: AbortSignal, type: string): ConnectorContext {
  return {
    flow: options.identity,
    clock: deps.clock,
    log: deps.log.child({ connector_type: type }),
    allowLoopback: options.allowLoopback,
    signal,
  }
}
