// Orders that are carried out once per id: by the first process that finds them undone. Positions kept in sinks go with the source's.
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { FlowCheckpoint } from './checkpoint.ts'
import type { Rewind, Source } from './connectors/connector.ts'
import type { FlowConnections } from './flow-connections.ts'
import type { LaneSet } from './lane-set.ts'
import type { Saver } from './saver.ts'

export interface OneShotDeps {
  readonly log: Log
  readonly checkpoint: FlowCheckpoint | undefined
  readonly source: Source
  readonly sourceType: string
  readonly lanes: LaneSet
  readonly saver: Saver
  readonly connections: Pick<FlowConnections, 'patiently'>
}

export async function carryOut(deps: OneShotDeps, { resetId, rewind }: OneShots): Promise<void> {
  const { connections } = deps
  const applied = deps.checkpoint?.applied
  const isReset = resetId !== undefined && resetId !== applied?.resetId
  const isRewound = rewind !== undefined && rewind.id !== applied?.rewindId
  if (!isReset && !isRewound) return
  const part = { type: deps.sourceType, at: 'source' }
  for (const lane of deps.lanes.sinks)
    await connections.patiently({ connect: () => lane.forgetPositions(), type: lane.options.sinkType, at: lane.options.name })
  if (isReset) await connections.patiently({ ...part, connect: () => deps.source.rewind('start') })
  if (isRewound) await connections.patiently({ ...part, connect: () => deps.source.rewind(rewind.to as Rewind) })
  deps.saver.orders = { ...(isReset && { resetId }), ...(isRewound && { rewindId: rewind.id }) }
  await deps.saver.save()
  deps.log.info('positions were set back', { ...(isReset && { reset: resetId }), ...(isRewound && { rewind: rewind.id }) })
}
