// Applies a reset or rewind once per id: the first process that finds the id not applied sets back the source and the positions that
// sinks store, then saves the id in the checkpoint.
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Rewind, Source } from '../../connectors/connector.ts'
import type { FlowCheckpoint } from '../checkpoint/checkpoint.ts'
import type { CheckpointSaver } from '../checkpoint/checkpoint-saver.ts'
import type { SinkWorkers } from '../sinks/sink-workers.ts'
import type { FlowConnections } from './flow-connections.ts'

export interface OneShotDeps {
  readonly log: Log
  readonly checkpoint: FlowCheckpoint | undefined
  readonly source: Source
  readonly sourceType: string
  readonly sinkWorkers: SinkWorkers
  readonly saver: CheckpointSaver
  readonly connections: Pick<FlowConnections, 'connectPart'>
}

export async function applyOneShots(deps: OneShotDeps, { resetId, rewind }: OneShots): Promise<void> {
  const { connections } = deps
  const applied = deps.checkpoint?.appliedOneShots
  const isReset = resetId !== undefined && resetId !== applied?.resetId
  const isRewound = rewind !== undefined && rewind.id !== applied?.rewindId
  if (!isReset && !isRewound) return
  const part = { type: deps.sourceType, at: 'source' }
  for (const sinkWorker of deps.sinkWorkers.sinks) {
    const { sinkType, name } = sinkWorker.options
    await connections.connectPart({ connect: () => sinkWorker.forgetPositions(), type: sinkType, at: name })
  }
  if (isReset) await connections.connectPart({ ...part, connect: () => deps.source.rewind('start') })
  if (isRewound) await connections.connectPart({ ...part, connect: () => deps.source.rewind(rewind.to as Rewind) })
  deps.saver.appliedOneShots = { ...(isReset && { resetId }), ...(isRewound && { rewindId: rewind.id }) }
  await deps.saver.save()
  deps.log.info('positions reset', { ...(isReset && { reset: resetId }), ...(isRewound && { rewind: rewind.id }) })
}
