// The transforms of a flow as a stage: in this thread, or in workers when the flow asks for more than one.
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import type { Activity } from './activity.ts'
import { buildChain } from './chain.ts'
import { ChainStage } from './chain-stage.ts'
import { type ChainWorkers, createChainWorkers } from './chain-workers.ts'
import type { FlowWatch } from './flow-watch.ts'
import type { Intake } from './intake.ts'
import type { Judge } from './judge.ts'
import type { PipelineDeps, PipelineOptions } from './pipeline-options.ts'

export interface ChainParts {
  readonly activity: Activity
  readonly watch: FlowWatch
  readonly intake: Intake
  readonly judge: Judge
}

const workersMax = 64

export function makeStage(
  deps: PipelineDeps,
  { flow }: PipelineOptions,
  { activity, watch, intake, judge }: ChainParts,
): { stage: ChainStage; workers: ChainWorkers | undefined } {
  const { transformations, transformWorkers } = flow
  const built = buildChain(transformations, { patterns: re2 })
  const chain = deps.replay?.chain(built) ?? built
  watch.chain = chain
  const counted: Parameters<typeof createChainWorkers>[0]['counted'] = (counts) => watch.stepsRan(counts)
  const workers =
    transformWorkers > 1
      ? createChainWorkers({ clock: deps.clock, counted }, { transformations, workers: Math.min(workersMax, transformWorkers) })
      : undefined
  const stage = new ChainStage({
    clock: deps.clock,
    chain,
    workers,
    emit: (of, records, nowMs) => intake.emit(of, records, nowMs),
    drop: (of, reason) => intake.drop(of, reason),
    fail: (of, failure) => {
      activity.touch()
      return judge.message(of, failure, flow.sink.type)
    },
    released: (of) => judge.released(of),
    bug: (error) => deps.log.error('a transform failed unexpectedly', { error }),
    kick: () => intake.kick(),
    took: (messages, ms) => watch.transformed(messages, ms),
  })
  return { stage, workers }
}
