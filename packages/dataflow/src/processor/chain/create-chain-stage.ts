// Composition root of the chain: runs in this thread, or in worker threads if the flow asks for more than one.
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { buildMessageId } from '../../message/message-id.ts'
import type { FailurePolicy } from '../dead-letter/failure-policy.ts'
import type { Intake } from '../pipeline/intake.ts'
import type { PipelineDeps, PipelineOptions } from '../pipeline/pipeline-options.ts'
import type { Activity } from '../status/activity.ts'
import type { FlowStatus } from '../status/flow-status.ts'
import { buildChain, type Chain } from './chain.ts'
import { ChainStage } from './chain-stage.ts'
import { type ChainWorkers, createChainWorkers } from './chain-workers.ts'

export interface ChainStageParts {
  readonly activity: Activity
  readonly flowStatus: FlowStatus
  readonly intake: Intake
  readonly failurePolicy: FailurePolicy
}

export interface ChainSubsystem {
  readonly chain: Chain
  readonly stage: ChainStage
  readonly workers: ChainWorkers | undefined
}

const maxWorkers = 64

export function createChainStage(deps: PipelineDeps, { flow }: PipelineOptions, parts: ChainStageParts): ChainSubsystem {
  const { activity, flowStatus, intake, failurePolicy } = parts
  const { transformations, transformWorkers } = flow
  const flowChain = buildChain(transformations, { patterns: re2 })
  const chain = deps.replay?.chain(flowChain) ?? flowChain
  const workers =
    transformWorkers > 1
      ? createChainWorkers(
          { clock: deps.clock, onCounts: (counts) => flowStatus.countSteps(counts) },
          { transformations, workers: Math.min(maxWorkers, transformWorkers) },
        )
      : undefined
  const stage = new ChainStage({
    clock: deps.clock,
    chain,
    workers,
    enqueue: (message, records, nowMs) => {
      deps.tap?.offer(records)
      intake.enqueue(message, records, nowMs)
    },
    drop: (message, reason) => intake.drop(message, reason),
    fail: (message, failure) => {
      activity.record()
      return failurePolicy.rejectMessage(message, failure, flow.sink.type)
    },
    onAccepted: (message) => failurePolicy.acceptAfterRetry(message),
    onUnexpectedError: (error, { metadata }) =>
      deps.log.error('transform failed unexpectedly', { error, message_id: buildMessageId(metadata) }),
    wakeSinkWorkers: () => intake.wakeSinkWorkers(),
    onDuration: (messages, ms) => flowStatus.recordTransform(messages, ms),
  })
  return { chain, stage, workers }
}
