// Input of one attempt, and its comparison with the applied object. Pure.
import type { StackState } from '../stack-parents.ts'

export interface ApplyTask {
  readonly stackId: string
  readonly rev: number
  readonly drift: string
  readonly object: { readonly id: string; readonly sequenceId: number; readonly checksum: string; readonly content: Buffer }
  readonly text: string
  /** Members that another writer may have changed. */
  readonly driftCandidates: ReadonlySet<string>
  /** Members in drift backoff: not healed until their pause is over. */
  readonly backedOff: ReadonlySet<string>
  /** True for stacks of this agent that are being removed. */
  readonly isLeaving?: (stackId: string) => boolean
}

export const isApplied = (state: StackState, { rev, drift, object }: ApplyTask): boolean =>
  state.deployment_object_id === object.id && state.rev === rev && state.drift === drift

/** State of the deployment object that the parent stores after a successful apply. */
export const toStackState = (
  agentId: string,
  { stackId, rev, drift, object }: ApplyTask,
  event: StackState['event'],
): Omit<StackState, 'version'> => ({
  agent_id: agentId,
  stack_id: stackId,
  deployment_object_id: object.id,
  sequence_id: object.sequenceId,
  rev,
  checksum: object.checksum,
  drift,
  event,
})
