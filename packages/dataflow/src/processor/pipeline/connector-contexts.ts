// The contexts that connectors of a flow receive: settings of the flow and callbacks into the pipeline.
import type { ConnectorContext, Partition, SinkContext, Source, SourceContext } from '../../connectors/connector.ts'
import type { CheckpointSaver } from '../checkpoint/checkpoint-saver.ts'
import { hasMonotonicPositions, type SinkPlan, soleWriter } from '../sinks/sink-plans.ts'
import type { FlowStatus } from '../status/flow-status.ts'
import type { PipelineDeps, PipelineOptions } from './pipeline-options.ts'

export interface SourceListener {
  /** Awaited before the first message of these partitions. */
  onAssigned(partitions: readonly Partition[]): Promise<void>
  onRevoked(partitions: readonly Partition[]): Promise<void>
  onStateChanged(): void
}

/** Forwards events of the source. The listener is set after all parts exist and before the source connects. */
export class SourceEvents {
  #listener: SourceListener = { onAssigned: () => Promise.resolve(), onRevoked: () => Promise.resolve(), onStateChanged: () => {} }

  listen(listener: SourceListener): void {
    this.#listener = listener
  }

  get listener(): SourceListener {
    return this.#listener
  }
}

export interface SourceContextParts {
  readonly stopping: AbortSignal
  readonly flowStatus: FlowStatus
  readonly events: SourceEvents
}

export function createSourceContext(deps: PipelineDeps, options: PipelineOptions, parts: SourceContextParts): SourceContext {
  const { flow, isBounded } = options
  const { flowStatus, events } = parts
  return {
    ...createConnectorContext(deps, options, parts.stopping, flow.source.type),
    stored: deps.checkpoint?.state,
    isBounded,
    replicas: flow.replicas,
    flowId: deps.checkpoint?.flowId,
    assigned: (partitions) => events.listener.onAssigned(partitions),
    revoked: (partitions) => events.listener.onRevoked(partitions),
    stateChanged: () => events.listener.onStateChanged(),
    condition: (type, message) => flowStatus.setSourceCondition(type, message),
    notice: (reason, message) => flowStatus.addNotice(reason, message),
    dropped: (reason, count) => flowStatus.countDropped(reason, count),
  }
}

export function createSinkContext(
  deps: PipelineDeps,
  options: PipelineOptions,
  { role, positionKey, spec, name }: SinkPlan,
  parts: { readonly stopping: AbortSignal; readonly source: Source; readonly saver: CheckpointSaver },
): SinkContext {
  const { checkpoint } = deps
  return {
    ...createConnectorContext(deps, options, parts.stopping, spec.type),
    role,
    positionKey,
    source: parts.source,
    epoch: deps.checkpoint?.epoch ?? 0,
    soleWriter: soleWriter(options.flow, positionKey),
    hasStablePositions: hasMonotonicPositions(options.flow) && options.flow.replicas <= 1,
    storedState: checkpoint?.getSinkState(positionKey),
    saveState: checkpoint?.isShared === false ? (state) => parts.saver.saveSinkState(positionKey, state) : undefined,
    conflictsIgnored: (count) => deps.metrics.conflicts(spec.type, name).inc(count),
  }
}

function createConnectorContext(deps: PipelineDeps, options: PipelineOptions, signal: AbortSignal, type: string): ConnectorContext {
  return {
    flow: options.identity,
    clock: deps.clock,
    log: deps.log.child({ connector_type: type }),
    allowLoopback: options.allowLoopback,
    signal,
    addSecret: (value) => deps.redact.add(value),
  }
}
