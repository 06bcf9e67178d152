// Composition root of checkpointing: the saver of the checkpoint and the committer of source positions.
import { UnreadableCheckpoint } from '@brokkr/contract/dataflow/checkpoint.ts'
import type { Source } from '../../connectors/connector.ts'
import type { FlowSignals } from '../pipeline/flow-end.ts'
import type { InFlightMessages } from '../pipeline/in-flight-messages.ts'
import type { PipelineDeps, PipelineOptions } from '../pipeline/pipeline-options.ts'
import type { Activity } from '../status/activity.ts'
import type { FlowCounts } from '../status/flow-counts.ts'
import type { FlowStatus } from '../status/flow-status.ts'
import { Fenced } from './checkpoint.ts'
import { CheckpointSaver } from './checkpoint-saver.ts'
import { Committer, type CommitterDeps } from './committer.ts'

export interface CheckpointingParts extends Pick<CommitterDeps, 'exclusively'> {
  readonly source: Source
  readonly signals: FlowSignals
  readonly inFlight: InFlightMessages
  readonly counts: FlowCounts
  readonly activity: Activity
  readonly flowStatus: FlowStatus
}

export function createCheckpointing(
  deps: PipelineDeps,
  { flow, settings }: PipelineOptions,
  parts: CheckpointingParts,
): { saver: CheckpointSaver; committer: Committer } {
  const { source, signals, inFlight, counts, activity, flowStatus } = parts
  const { clock } = deps
  const saver = new CheckpointSaver({
    clock,
    checkpoint: deps.checkpoint,
    intervalMs: flow.checkpointSaveIntervalMs,
    limitMs: settings.saveMs,
    getState: () => source.state(),
    getCounters: () => counts.counters,
    onSaved: () => flowStatus.recordSave(),
    onFailure: (error) => {
      if (error instanceof Fenced || error instanceof UnreadableCheckpoint) signals.fail(error)
      else flowStatus.recordFailure({ operation: 'save', connector: 'checkpoint', at: 'checkpoint' }, error)
    },
  })
  const committer = new Committer(
    {
      clock,
      source,
      inFlight,
      exclusively: (work) => parts.exclusively(work),
      onCommit: (_positions, outcomes) => {
        counts.recordCommit(outcomes, clock.now())
        activity.record()
        flowStatus.recordCommit()
        if (flow.checkpointSyncOnAck) saver.requestSave()
      },
      onFailure: (error) => flowStatus.recordFailure({ operation: 'commit', connector: flow.source.type, at: 'source' }, error),
    },
    settings,
  )
  return { saver, committer }
}
