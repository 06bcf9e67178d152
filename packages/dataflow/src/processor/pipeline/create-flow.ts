// Composition root of a flow: creates the parts, then connects their events. `pipeline.ts` starts them.
import type { Source } from '../../connectors/connector.ts'
import { type ChainSubsystem, createChainStage } from '../chain/create-chain-stage.ts'
import type { CheckpointSaver } from '../checkpoint/checkpoint-saver.ts'
import type { Committer } from '../checkpoint/committer.ts'
import { createCheckpointing } from '../checkpoint/create-checkpointing.ts'
import { createFailureHandling, type FailureHandling } from '../dead-letter/create-failure-policy.ts'
import { createSinkWorkers } from '../sinks/create-sink-workers.ts'
import { createOffsetCoverage } from '../sinks/offset-coverage.ts'
import { hasMonotonicPositions } from '../sinks/sink-plans.ts'
import { SinkWorkers } from '../sinks/sink-workers.ts'
import { Activity } from '../status/activity.ts'
import { FlowCounts } from '../status/flow-counts.ts'
import { FlowReport } from '../status/flow-report.ts'
import { FlowStatus } from '../status/flow-status.ts'
import { createSourceContext, SourceEvents } from './connector-contexts.ts'
import { FlowConnections } from './flow-connections.ts'
import { FlowSignals } from './flow-end.ts'
import { InFlightBudget } from './in-flight-budget.ts'
import { InFlightMessages } from './in-flight-messages.ts'
import { Intake } from './intake.ts'
import type { PipelineDeps, PipelineOptions } from './pipeline-options.ts'
import { revokePartitions } from './revoke-partitions.ts'
import { createMutex } from './waiter.ts'

export interface FlowCore {
  readonly signals: FlowSignals
  readonly activity: Activity
  readonly counts: FlowCounts
  readonly budget: InFlightBudget
  readonly inFlight: InFlightMessages
  readonly flowStatus: FlowStatus
}

export interface FlowParts extends FlowCore, FailureHandling, ChainSubsystem {
  readonly source: Source
  readonly sinkWorkers: SinkWorkers
  readonly saver: CheckpointSaver
  readonly committer: Committer
  readonly intake: Intake
  readonly connections: FlowConnections
  readonly report: FlowReport
}

export function createFlow(deps: PipelineDeps, options: PipelineOptions): FlowParts {
  const { flow, settings, specHash } = options
  const { clock, redact } = deps
  const core = createCore(deps, options)
  const { signals, flowStatus, inFlight } = core
  const stopping = signals.stopping.signal
  const events = new SourceEvents()
  const source = deps.openSource(createSourceContext(deps, options, { stopping, flowStatus, events }))
  const exclusively = createMutex()
  const { saver, committer } = createCheckpointing(deps, options, { ...core, source, exclusively })
  const sinkWorkers = new SinkWorkers()
  const shared = { ...core, clock, redact, stopping, source, sinkWorkers, committer, saver }
  const failureHandling = createFailureHandling(deps, options, shared)
  const coverage = createOffsetCoverage(inFlight, signals.ended.signal)
  createSinkWorkers(deps, options, { ...shared, ...failureHandling, coverage, exclusively })
  const limits = { maxMessageBytes: flow.maxMessageBytes, isMonotonic: hasMonotonicPositions(flow) }
  const intake = new Intake({ ...shared, ...failureHandling, ...limits })
  const chain = createChainStage(deps, options, { ...core, ...failureHandling, intake })
  const connections = new FlowConnections({ ...shared, retry: settings.connectRetry, sourceType: flow.source.type })
  const report = new FlowReport({ ...deps, ...shared, ...failureHandling, chain: chain.chain }, { specHash, settings })
  const parts: FlowParts = { ...core, ...failureHandling, ...chain, source, sinkWorkers, saver, committer, intake, connections, report }
  connectEvents(deps, options, parts, events)
  return parts
}

function createCore(deps: PipelineDeps, { flow, settings }: PipelineOptions): FlowCore {
  const activity = new Activity(deps.clock)
  const budget = new InFlightBudget(flow.maxInFlightBytes, settings.positionsMax)
  const counts = new FlowCounts(deps.clock.now())
  const flowStatus = new FlowStatus({ ...deps, activity }, { sourceType: flow.source.type, settings })
  return { signals: new FlowSignals(), activity, counts, budget, inFlight: new InFlightMessages(budget), flowStatus }
}

function connectEvents({ log }: PipelineDeps, { settings }: PipelineOptions, parts: FlowParts, events: SourceEvents): void {
  const { inFlight, flowStatus, committer, saver, connections, signals, sinkWorkers } = parts
  inFlight.listen({
    onOutcome: (_message, outcome) => flowStatus.recordOutcome(outcome),
    onPrefixAdvance: (messages) => committer.recordAdvance(messages),
  })
  events.listen({
    onAssigned: async (partitions) => {
      log.info('partitions assigned', { partitions: partitions.map(String) })
      await connections.takeOverPositions(partitions)
    },
    onRevoked: async (partitions) => {
      await revokePartitions({ ...parts, log, revokeMs: settings.revokeMs, ended: signals.ended.signal }, partitions)
      saver.requestSave()
    },
    onStateChanged: () => saver.requestSave(),
  })
  signals.failure.addEventListener('abort', () => sinkWorkers.stop())
}
