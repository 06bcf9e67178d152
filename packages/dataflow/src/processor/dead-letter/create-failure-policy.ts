// Composition root of failure handling: failure policy and, if the flow has an errors sink, the dead-letter sender.
import type { Source } from '../../connectors/connector.ts'
import type { InFlightMessages } from '../pipeline/in-flight-messages.ts'
import { flowKey, type PipelineDeps, type PipelineOptions } from '../pipeline/pipeline-options.ts'
import type { SinkWorkers } from '../sinks/sink-workers.ts'
import type { FlowStatus } from '../status/flow-status.ts'
import { createDeadLetterBuilder } from './dead-letter.ts'
import { DeadLetterSender } from './dead-letter-sender.ts'
import { FailurePolicy } from './failure-policy.ts'

export interface FailureHandling {
  readonly failurePolicy: FailurePolicy
  readonly deadLetters: DeadLetterSender | undefined
}

export interface FailureHandlingParts {
  readonly stopping: AbortSignal
  readonly inFlight: InFlightMessages
  readonly flowStatus: FlowStatus
  readonly source: Source
  readonly sinkWorkers: SinkWorkers
}

export function createFailureHandling(deps: PipelineDeps, options: PipelineOptions, parts: FailureHandlingParts): FailureHandling {
  const { flow, settings, oneShots } = options
  const { stopping, inFlight, flowStatus, source, sinkWorkers } = parts
  const deadLetters = createDeadLetterSender(deps, options, sinkWorkers)
  const failurePolicy = new FailurePolicy({
    clock: deps.clock,
    stopping,
    inFlight,
    blockReasons: flowStatus.blockReasons,
    deadLetters,
    errors: flow.errors,
    blockedEveryMs: settings.blockedEveryMs,
    skip: oneShots.skip,
    describe: ({ tracker, position }) => source.describe(new Map([[tracker.partition, position]])),
    onDeadLetter: (failure, messageId, position) => flowStatus.recordDeadLetter(failure, messageId, position),
    onSkip: (messageId, position) => flowStatus.recordSkip(messageId, position),
  })
  return { failurePolicy, deadLetters }
}

function createDeadLetterSender(deps: PipelineDeps, options: PipelineOptions, sinkWorkers: SinkWorkers): DeadLetterSender | undefined {
  const { flow, specHash } = options
  if (flow.errors === undefined) return undefined
  const builder = createDeadLetterBuilder({
    flow: flowKey(options),
    specHash,
    payload: flow.errors.payload,
    transformations: flow.transformations,
    redact: (text) => deps.redact(text),
  })
  return new DeadLetterSender({ clock: deps.clock, builder: deps.replay?.deadLetters(builder) ?? builder, sinkWorkers })
}
