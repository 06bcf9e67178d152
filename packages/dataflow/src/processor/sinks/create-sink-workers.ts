// Composition root of the sinks: one sink worker for the main sink, one per route, one for the errors sink.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { ConnectorError, Sink, Source } from '../../connectors/connector.ts'
import { buildMessageId } from '../../message/message-id.ts'
import type { CheckpointSaver } from '../checkpoint/checkpoint-saver.ts'
import type { Committer } from '../checkpoint/committer.ts'
import type { DeadLetterSender } from '../dead-letter/dead-letter-sender.ts'
import type { FailurePolicy } from '../dead-letter/failure-policy.ts'
import { createSinkContext } from '../pipeline/connector-contexts.ts'
import type { InFlightBudget } from '../pipeline/in-flight-budget.ts'
import type { QueueEntry } from '../pipeline/in-flight-message.ts'
import type { InFlightMessages } from '../pipeline/in-flight-messages.ts'
import { flowKey, type PipelineDeps, type PipelineOptions } from '../pipeline/pipeline-options.ts'
import type { Activity } from '../status/activity.ts'
import type { FlowCounts } from '../status/flow-counts.ts'
import type { FlowStatus } from '../status/flow-status.ts'
import { BatchNotWritten, type RejectionResult } from './batch-writer.ts'
import { maxRecords } from './batcher.ts'
import { hasMonotonicPositions, planSinks, type SinkPlan } from './sink-plans.ts'
import { type OffsetCoverage, SinkWorker, type SinkWorkerDeps, type SinkWorkerOptions } from './sink-worker.ts'
import type { SinkWorkers } from './sink-workers.ts'

export interface SinkWorkerParts extends Pick<SinkWorkerDeps, 'exclusively'> {
  readonly clock: Clock
  readonly redact: (text: string) => string
  readonly stopping: AbortSignal
  readonly coverage: OffsetCoverage
  readonly source: Source
  readonly activity: Activity
  readonly counts: FlowCounts
  readonly budget: InFlightBudget
  readonly inFlight: InFlightMessages
  readonly sinkWorkers: SinkWorkers
  readonly flowStatus: FlowStatus
  readonly failurePolicy: FailurePolicy
  readonly deadLetters: DeadLetterSender | undefined
  readonly committer: Committer
  readonly saver: CheckpointSaver
}

/** Adds all workers of the flow to `parts.sinkWorkers`. */
export function createSinkWorkers(deps: PipelineDeps, options: PipelineOptions, parts: SinkWorkerParts): void {
  for (const plan of planSinks(options.flow, flowKey(options))) {
    const sink = deps.openSink(plan, createSinkContext(deps, options, plan, parts))
    parts.sinkWorkers.add(createSinkWorker(parts, options, plan, sink), plan.route?.id)
  }
}

function createSinkWorker(parts: SinkWorkerParts, options: PipelineOptions, plan: SinkPlan, sink: Sink): SinkWorker {
  const { clock, stopping, inFlight, flowStatus, failurePolicy, coverage, budget, activity, source, committer } = parts
  const { ackGranularity } = options.flow
  const deps: SinkWorkerDeps = {
    sink,
    clock,
    stopping,
    coverage,
    isBudgetSpent: () => budget.isSpent,
    exclusively: (work) => parts.exclusively(work),
    compare: (left, right) => source.compare(left, right),
    onAttempt: () => activity.record(),
    onWritten: (worker, entries, tookMs) => {
      flowStatus.recordWrite(worker, entries, tookMs)
      finishWritten(parts, worker, entries)
    },
    onAlreadyWritten: (worker, entry) => {
      flowStatus.countDuplicate(worker)
      inFlight.finishRecord(entry.from, 'written-before')
    },
    onFailure: ({ options: { sinkType, name } }, error) =>
      flowStatus.recordFailure({ operation: 'write', connector: sinkType, at: name }, error),
    canGiveUp: (worker) => canGiveUp(parts, worker, plan),
    reject: (worker, entry, error, attempts) =>
      worker === parts.sinkWorkers.errors
        ? rejectDeadLetter(parts, options, entry, error)
        : failurePolicy.rejectRecord(worker, entry, error, attempts),
    onAccepted: (entry) => failurePolicy.acceptAfterRetry(entry),
    onFlush: () => (ackGranularity === 'message' ? committer.commitWithRetry(stopping) : Promise.resolve()),
  }
  return new SinkWorker(deps, toWorkerOptions(options, plan))
}

function toWorkerOptions({ flow, settings }: PipelineOptions, plan: SinkPlan): SinkWorkerOptions {
  return {
    name: plan.name,
    role: plan.role,
    sinkType: plan.spec.type,
    limits: plan.limits,
    writesBytes: plan.writesBytes,
    skipsWritten: hasMonotonicPositions(flow) && plan.role !== 'errors',
    queueMax: maxRecords(plan.limits) + flow.channelBufferSize,
    writer: {
      retry: settings.sinkRetry,
      retriesMax: settings.sinkRetriesMax,
      flushMs: settings.flushMs,
      stoppingFlushMs: settings.drainMs,
    },
  }
}

function finishWritten(parts: SinkWorkerParts, worker: SinkWorker, entries: readonly QueueEntry[]): void {
  const { sinkWorkers, deadLetters, failurePolicy, inFlight, counts } = parts
  if (worker === sinkWorkers.errors) return deadLetters?.acknowledge(entries)
  counts.written += entries.length
  failurePolicy.recordWrite()
  for (const { from } of entries) inFlight.finishRecord(from, 'written')
}

/** A dead letter that the errors sink rejects: once without its payload, then blocked and retried without a limit. */
async function rejectDeadLetter(
  { deadLetters, flowStatus, source, clock, stopping, redact }: SinkWorkerParts,
  { settings }: PipelineOptions,
  entry: QueueEntry,
  error: ConnectorError,
): Promise<RejectionResult> {
  if (deadLetters!.removePayload(entry)) return 'retry'
  const { tracker, position } = entry.from
  const block = flowStatus.blockReasons.add({
    stage: 'errors',
    connector: 'errors',
    errorType: error.type,
    message: redact(error.message),
    position: source.describe(new Map([[tracker.partition, position]])),
    messageId: buildMessageId(entry.record.metadata),
  })
  try {
    await clock.sleep(settings.blockedEveryMs, stopping)
  } catch (cause) {
    throw new BatchNotWritten('the processor stopped while the errors sink rejected a dead letter', { cause })
  } finally {
    block.end()
  }
  return 'retry'
}

/** True for a route with `onUnavailable: deadLetter` whose sink has failed for `afterMs`. */
function canGiveUp({ clock, sinkWorkers }: SinkWorkerParts, worker: SinkWorker, { route }: SinkPlan): boolean {
  if (route?.onUnavailable !== 'deadLetter' || sinkWorkers.errors === undefined || worker.failingSinceMs === undefined) return false
  return clock.monotonicMs() - worker.failingSinceMs >= route.afterMs
}
